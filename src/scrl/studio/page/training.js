// Training for this field: begin, stop, resume, and its curves while it learns.

import {chart} from "./chart.js";
import {$, show} from "./dom.js";

// `handlers`: start(steps, seeds), cancel(), resume().
export function setUpTraining(on) {
  const whole = id => $(id).value.trim() === "" ? null : Number($(id).value);
  $("train").addEventListener("click", () => on.start(whole("train-steps"), whole("train-seeds") ?? 1));
  $("train-cancel").addEventListener("click", on.cancel);
  $("train-resume").addEventListener("click", on.resume);
}

export function drawTraining(found) {
  const isBusy = found.status === "running" || found.status === "stopping";
  show($("train"), !isBusy);
  show($("train-cancel"), isBusy);
  $("train-cancel").disabled = found.status === "stopping";
  show($("train-resume"), Boolean(found.run) && (found.status === "stopped" || found.status === "failed"));
  const where = found.run ? ` In the folder ${found.run}.` : "";
  $("train-text").className = `small ${found.status === "failed" ? "bad" : ""}`;
  $("train-text").textContent = found.text ? `${found.text[0].toUpperCase()}${found.text.slice(1)}${/[.!?]$/.test(found.text) ? "" : "."}${where}` : "";
  show($("curves"), found.points.length > 1);
  $("curves").replaceChildren(chart("Cost", found.points.map(([at, value]) => [at, -value]), "rounds"),
    chart("Rules broken by", found.points.map(([at, , value]) => [at, value]), "rounds"));
}
