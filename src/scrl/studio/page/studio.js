// The page: what the server says is drawn, what a person does is sent.

import {download, get, listen, newestOnly, post, upload} from "./api.js";
import {drawBars} from "./bars.js";
import {drawComparison, setComparedView} from "./compare.js";
import {drawOutlines, focusedOutline, setUpDrawing} from "./draw.js";
import {h, $, show, number} from "./dom.js";
import {drawForms} from "./forms.js";
import {drawEstimate, drawMap, drawPlan, drawViews, setUpDrive, setView, viewOf} from "./map.js";
import {drawChecks, drawMargins, drawOutcomes, drawRules, isDragging, setNames, setUpRules} from "./rules.js";
import {drawTraining, setUpTraining} from "./training.js";
import {closeTrade, drawTrade, openTrade, tradeOf} from "./trade.js";

let state = null, seen = null, plan = null, map = null, mapAsked = null, mapDrawn = null, requests = 0, released = null;

// Messages ----------------------------------------------------------------------------------------

function notice(text, {kind = "", id = null, actions = []} = {}) {
  id ??= text;
  unnotice(id);
  const box = h("div", {class: `notice ${kind}`, "data-notice": id}, h("p", {}, text), ...actions);
  box.append(h("button", {class: "quiet", "aria-label": "Dismiss", onclick: () => box.remove()}, "✕"));
  $("notices").append(box);
  while ($("notices").children.length > 5) $("notices").firstChild.remove();
}

function unnotice(id) {
  for (const each of [...$("notices").children]) if (each.dataset.notice === id) each.remove();
}

async function trying(work) {
  try { return await work(); } catch (error) { notice(error.message, {kind: "bad", id: "error"}); return null; }
}

// State -------------------------------------------------------------------------------------------

async function drawState(found) {
  const isNewer = !state || found.version >= state.version;
  if (!isNewer) return;
  state = found;
  document.title = `${found.isUnsaved ? "• " : ""}${found.name} · scrl studio`;
  $("name").textContent = found.name;
  $("place").textContent = found.place ? `${found.place}${found.isUnsaved ? ", with unsaved changes" : ""}` : "Built in: copied before its first change";
  $("undo").disabled = !found.canUndo;
  $("redo").disabled = !found.canRedo;
  $("save").disabled = !found.isKept || (!found.isUnsaved && Boolean(found.place));
  for (const text of found.notices.splice(0)) notice(text);
  drawDisk(found.isChangedOnDisk);
  const isDrawn = !isDragging();
  if (isDrawn) drawRules(found.document.rules, found.check);
  $("return").textContent = `Cost is the negative of the return: ${found.returnText}.`;
  $("warnings").replaceChildren(...found.warnings.map(text => h("p", {}, text)));
  drawCommands();
  drawForms(found.settings, (table, key, value) => edited("setting", {table, key, value}));
  drawProgress(found.trouble ? "" : plan?.version === found.version ? "" : "planning …");
  if (found.trouble) drawTrouble({version: found.version, message: found.trouble});
  if (mapAsked !== found.map) { mapAsked = found.map; mapDrawn = loadMap(); }
  await mapDrawn;
  if (isDrawn) seen = Math.max(seen ?? 0, found.version);
}

async function loadMap() {
  const asked = mapAsked, found = await get("/api/map");
  if (asked !== mapAsked) return;
  map = found;
  setNames(map.names);
  const focused = focusedOutline();
  drawOutlines(map, drawMap(map), focused);
  drawViews(document.querySelector(".views"));
  drawExports();
  if (plan && plan.version === state.version) drawWhole();
}

function drawDisk(isChanged) {
  unnotice("disk");
  if (!isChanged) return;
  notice("The problem file was changed on disk by another program.", {id: "disk", kind: "mixed", actions: [
    h("button", {onclick: () => edited("reload")}, "Take the file"),
    h("button", {onclick: () => trying(() => post("save", {overwrite: true}))}, "Replace it by mine")]});
}

function drawCommands() {
  const lines = state.commands;
  $("commands").replaceChildren(...(lines.length ? [h("pre", {tabindex: 0}, lines.join("\n")),
    h("button", {onclick: event => navigator.clipboard?.writeText(lines.join("\n")).then(() => { event.target.textContent = "Copied"; })}, "Copy")]
    : [h("p", {class: "small"}, state.document.rules.length ? "Save the problem first: its map or its settings are changed." : "There are no rules yet.")]));
}

function drawExports() {
  const line = (what, sentence) => { what.setAttribute("aria-description", sentence); return h("li", {}, what, h("small", {}, sentence)); };
  $("exports").replaceChildren(...Object.entries(map.formats).map(([name, sentence]) => line(h("button", {onclick: () => exported(name)}, name), sentence)),
    line(h("a", {class: "button", href: "/report", target: "_blank", rel: "noopener"}, "report page"), "all about the plan on one page, to print or to send"));
}

async function exported(name) {
  const warnings = await trying(() => download(`/api/export?format=${encodeURIComponent(name)}`));
  for (const text of warnings || []) notice(text, {kind: "mixed"});
}

// Plans and estimates -----------------------------------------------------------------------------

function drawProgress(text) {
  $("progress").textContent = text;
  $("plan").classList.toggle("busy", Boolean(text));
}

function drawTrouble(found) {
  if (found.version !== state.version) return;
  drawProgress("");
  $("verdict").className = "verdict bad";
  $("verdict").textContent = state.check.some(each => each.error) ? "A rule cannot be read; the plan below is for the rules before." : found.message.split("\n")[0];
}

function drawWhole() {
  drawProgress("");
  $("plan").classList.remove("estimate");
  $("verdict").className = `verdict ${plan.state}`;
  $("verdict").textContent = plan.verdict;
  $("figures").replaceChildren(...plan.figures.map(each => h("div", {}, h("dt", {}, each.name), h("dd", {class: each.state}, each.value.replace(/^-/, "\u2212")), each.remark ? h("dd", {}, each.remark) : null)));
  drawPlan(plan.route);
  drawReceived(plan.bars);
  $("received-note").textContent = `In ${map.unit}. Marks are bounds of rules on one region, with a tip to the allowed side; dotted: one of several ways.`;
  $("total").textContent = plan.total ? `${plan.total[0].toUpperCase()}${plan.total.slice(1)}.` : "";
  drawOutcomes(plan.rules);
  drawConflict(plan.conflict);
  for (const text of plan.warnings) notice(text, {kind: "mixed"});
  if (released !== null) { const begun = released; painted(() => measured("plan", begun)); }
  released = null;
}

function drawReceived(bars) {
  show($("received"), true);
  drawBars($("bars"), bars);
}

function drawConflict(found) {
  show($("conflict"), Boolean(found));
  if (!found) return;
  const list = each => h("ul", {}, ...each.map(text => h("li", {}, text)));
  $("conflict").replaceChildren(h("div", {class: "rule why"}, h("h3", {}, found.why),
    h("ul", {}, ...found.rules.map(each => h("li", {}, `${each.name}: `, h("code", {}, each.text)))),
    found.relax.length ? h("p", {}, "The least loosening that helps:") : h("p", {}, "No loosening was found that helps: the numbers are too large to be weighed."),
    found.relax.length ? list(found.relax) : null,
    found.relax.length ? h("p", {}, h("button", {class: "primary", onclick: () => edited("loosen")}, "Apply this loosening")) : null,
    found.others.length || found.hints.length ? h("details", {}, h("summary", {}, "Other ways"), list([...found.others, ...found.hints])) : null,
    found.restsOn ? h("p", {class: "small"}, `Conflict and loosening rest on ${found.restsOn}.`) : null));
}

// So that times can be read with getEntriesByName: "redraw" is from the event that moves a number to the frame
// that shows its estimate, "plan" from the release to the frame that shows the plan, and "answer" the processor
// time that the server takes for an estimate.
function measured(name, begun, end = performance.now()) {
  if (performance.getEntriesByName(name).length > 300) performance.clearMeasures(name);
  performance.measure(name, {start: begun, end});
}

// Calls `done` once what has been changed on the page is painted: a message that a frame sends comes after it.
function painted(done) {
  requestAnimationFrame(() => {
    const after = new MessageChannel();
    after.port1.onmessage = done;
    after.port2.postMessage(null);
  });
}

const estimates = newestOnly(async ({rules, begun}) => {
  requests += 1;
  try {
    const found = await post("estimate", {rules, number: requests, view: viewOf()});
    if (found.stale || !map) return;
    $("plan").classList.add("estimate");
    $("verdict").className = `verdict ${found.possible ? "" : "bad"}`;
    $("verdict").textContent = found.possible ? `About ${number(-found.return, 2)} (fluid estimate of the cost)` : "The fluid cannot keep these rules together.";
    $("received").classList.toggle("faded", !found.possible);
    if (found.possible) {
      drawReceived(found.bars);
      drawMargins(found.margins, found.costs);
      drawEstimate(found.pictures);
    }
    painted(() => measured("redraw", begun));
    measured("answer", 0, found.cpuMs);
  } catch (error) { drawTroubleOfEstimate(error); }
});

function drawTroubleOfEstimate(error) {
  $("verdict").className = "verdict bad";
  $("verdict").textContent = error.message.split("\n")[0];
}

// What a person does ------------------------------------------------------------------------------

// Edits go out one after the other, each with the version that the page then shows: the server refuses those of
// a page that has not seen what another window did.
let inTurn = Promise.resolve();

function edited(name, body = {}) {
  drawProgress("planning …");
  inTurn = inTurn.then(async () => {
    const found = await trying(() => post(name, {...body, seen}));
    if (found || state) await trying(() => drawState(found || state));
    return Boolean(found);
  });
  return inTurn;
}

function commit(rules) {
  estimates.forget();
  released = performance.now();
  $("received").classList.remove("faded");
  return edited("rules", {rules});
}

setUpRules({
  live: (rules, event) => estimates.send({rules, begun: event.timeStamp}),
  commit,
  check: async rules => { const found = await trying(() => post("check", {rules})); if (found) drawChecks(found); return found; },
  trade: (rule, start, value) => { openTrade(rule, start, value); trying(() => post("trade", {rule, start})); },
});
setUpDrawing({
  begun: () => setView("regions"),
  shape: (name, polygons) => edited("draw-region", {name, polygons}),
  rename: (name, to) => edited("rename-region", {name, to}),
  remove: name => edited("delete-region", {name}),
});
setUpTraining({
  start: (steps, seeds) => trying(() => post("train", {steps, seeds})),
  cancel: () => trying(() => post("cancel-training")),
  resume: () => trying(() => post("resume-training")),
});
for (const name of ["keep-plan", "drop-plan"]) $(name).addEventListener("click", () => trying(() => post(name)));
setUpDrive(setComparedView);
drawViews(document.querySelector(".views"));

for (const name of ["undo", "redo"]) $(name).addEventListener("click", () => edited(name));

async function save(overwrite = false) {
  try {
    const found = await post("save", {overwrite});
    notice(`Saved to ${found.path}`, {kind: "good", id: "saved"});
  } catch (error) {
    if (error.status === 409) drawDisk(true); else notice(error.message, {kind: "bad", id: "error"});
  }
}

async function saveAs() {
  const found = await trying(() => post("save-as", {name: $("save-as-name").value.trim()}));
  if (!found) return;
  showSaveAs(false);
  notice(`Saved to ${found.path}`, {kind: "good", id: "saved"});
}

function showSaveAs(isShown) {
  show($("save-as-form"), isShown);
  $("save-as").setAttribute("aria-expanded", isShown);
  (isShown ? $("save-as-name") : $("save-as")).focus();
}

$("save").addEventListener("click", () => save());
$("save-as").addEventListener("click", () => showSaveAs($("save-as-form").hidden));
$("save-as-do").addEventListener("click", saveAs);
$("save-as-name").addEventListener("keydown", event => {
  if (event.key === "Enter") saveAs();
  if (event.key === "Escape") showSaveAs(false);
});

async function open(files) {
  if (!files.length) return;
  drawProgress(`opening ${files[0].name} …`);
  closeTrade();
  const found = await trying(() => upload(files[0]));
  if (!found) drawProgress("");
}

$("open").addEventListener("change", event => { open(event.target.files); event.target.value = ""; });
addEventListener("dragover", event => { event.preventDefault(); document.body.classList.add("dropping"); });
addEventListener("dragleave", event => { if (!event.relatedTarget) document.body.classList.remove("dropping"); });
addEventListener("drop", event => { event.preventDefault(); document.body.classList.remove("dropping"); open(event.dataTransfer.files); });

addEventListener("keydown", event => {
  if (!(event.ctrlKey || event.metaKey) || event.altKey) return;
  const key = event.key.toLowerCase(), isWriting = event.target.matches("textarea, input:not([type=range], [type=checkbox])");
  if (key === "s") { event.preventDefault(); save(); }
  if (isWriting) return;
  if (key === "z") { event.preventDefault(); edited(event.shiftKey ? "redo" : "undo"); }
  if (key === "y") { event.preventDefault(); edited("redo"); }
});

listen({
  state: drawState,
  progress: found => { if (state && found.version === state.version && plan?.version !== found.version) drawProgress(`${found.text} …`); },
  plan: found => {
    if (plan && found.version < plan.version) return;
    plan = found;
    if (isDragging() || !state || found.version < state.version) return;
    if (map && mapAsked === state.map) drawWhole();
    const trade = tradeOf();
    if (trade) trying(() => post("trade", {rule: trade.rule, start: trade.start})).then(done => done || closeTrade());
  },
  trouble: drawTrouble,
  trade: drawTrade,
  comparison: found => drawComparison(found, viewOf()),
  training: drawTraining,
  found: () => unnotice("lost"),
  lost: isFinal => notice(isFinal
    ? "The studio has ended. Changes that were not saved are kept on disk: start it again and open the new address."
    : "The studio does not answer. Changes that were not saved are kept on disk.", {kind: "bad", id: "lost"}),
});
