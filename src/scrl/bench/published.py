"""What the paper prints (IJCAI 2025, tables 1 to 4), as printed: a tenth of the raw amounts."""

from __future__ import annotations

from typing import NamedTuple

PAPER_SCALE = 10.0
"""The paper's tables hold amounts and returns divided by this."""


class Published(NamedTuple):
    """Mean and, where printed, standard deviation over ten seeds."""

    violation: float
    violation_std: float | None
    return_: float
    return_std: float | None


PUBLISHED: dict[tuple[str, str], Published] = {
    ("med-situational", "ddpg"): Published(4.84, 0.28, -2.09, 0.01),
    ("med-situational", "rcpo"): Published(5.07, 0.33, -2.09, 0.01),
    ("med-situational", "cal"): Published(16.84, 13.13, -4.05, 2.16),
    ("med-situational", "dcrl-1"): Published(0.0, 0.0, -14.65, 1.02),
    ("med-situational", "dcrl-2"): Published(10.15, 9.17, -11.65, 13.94),
    ("med-situational", "scrl"): Published(0.0, 0.0, -13.12, 3.86),
    ("med-priority", "ddpg"): Published(30.16, 10.61, -2.74, 2.03),
    ("med-priority", "rcpo"): Published(33.36, 0.75, -2.1, 0.01),
    ("med-priority", "cal"): Published(13.31, 7.37, -4.67, 1.90),
    ("med-priority", "dcrl-1"): Published(32.15, 4.44, -3.38, 4.06),
    ("med-priority", "dcrl-2"): Published(7.95, 14.14, -29.77, 19.75),
    ("med-priority", "scrl"): Published(0.0, 0.0, -18.52, 13.17),
    ("med-priority", "scrl-min"): Published(0.7, 2.3, -16.0, 12.0),
    ("med-joint", "ddpg"): Published(54.04, 0.23, -2.09, 0.01),
    ("med-joint", "rcpo"): Published(54.04, 0.22, -2.1, 0.01),
    ("med-joint", "cal"): Published(36.18, 0.4, -5.02, 3.02),
    ("med-joint", "dcrl-1"): Published(41.03, 7.9, -29.97, 18.16),
    ("med-joint", "scrl"): Published(37.17, 8.85, -9.62, 4.17),
    ("agri-situational", "ddpg"): Published(4.85, 0.17, -2.1, 0.0),
    ("agri-situational", "rcpo"): Published(11.49, 1.55, -3.2, 0.3),
    ("agri-situational", "cal"): Published(6.71, 3.95, -3.79, 3.34),
    ("agri-situational", "dcrl-1"): Published(3.52, 4.76, -13.69, 3.15),
    ("agri-situational", "dcrl-2"): Published(4.69, 4.93, -19.15, 14.76),
    ("agri-situational", "scrl"): Published(0.01, 0.03, -45.37, 9.76),
    ("agri-priority", "ddpg"): Published(10.37, 0.3, -2.1, 0.02),
    ("agri-priority", "rcpo"): Published(1.26, 0.67, -3.22, 0.18),
    ("agri-priority", "cal"): Published(7.64, 2.35, -3.74, 3.36),
    ("agri-priority", "dcrl-1"): Published(0.0, 0.0, -31.29, 16.37),
    ("agri-priority", "dcrl-2"): Published(3.88, 4.9, -15.22, 19.15),
    ("agri-priority", "scrl"): Published(0.0, 0.0, -9.46, 1.20),
    ("agri-priority", "scrl-min"): Published(0.3, 0.8, -13.6, 8.2),
    ("agri-joint", "ddpg"): Published(19.54, 0.15, -2.1, 0.01),
    ("agri-joint", "rcpo"): Published(13.22, 0.92, -3.04, 0.21),
    ("agri-joint", "cal"): Published(18.61, 1.23, -2.39, 0.23),
    ("agri-joint", "dcrl-1"): Published(20.3, 10.66, -24.0, 11.82),
    ("agri-joint", "scrl"): Published(4.31, 2.38, -24.53, 5.07),
    ("agri-multi", "ddpg"): Published(8.6, None, -2.1, None),
    ("agri-multi", "rcpo"): Published(10.8, None, -4.2, None),
    ("agri-multi", "cal"): Published(10.0, None, -2.3, None),
    ("agri-multi", "dcrl-1"): Published(9.3, None, -2.1, None),
    ("agri-multi", "dcrl-2"): Published(9.4, None, -14.2, None),
    ("agri-multi", "dcrl-3"): Published(0.0, None, -16.7, None),
    ("agri-multi", "dcrl-4"): Published(0.0, None, -48.3, None),
    ("agri-multi", "scrl"): Published(0.0, None, -11.8, None),
}
"""By problem and method. The joint tasks' DCRL is `dcrl-1` here: there is only one way."""

PUBLISHED_SPLIT: dict[tuple[str, str], tuple[float, float]] = {
    ("med-priority", "ddpg"): (7.0, 125.1),
    ("med-priority", "scrl"): (24.8, 0.0),
    ("med-joint", "ddpg"): (7.0, 50.0),
    ("med-joint", "scrl"): (9.6, 23.1),
    ("agri-priority", "ddpg"): (6.9, 22.9),
    ("agri-priority", "scrl"): (15.7, 0.0),
    ("agri-joint", "ddpg"): (6.9, 22.9),
    ("agri-joint", "scrl"): (3.8, 0.0),
}
"""Table 2: violations of equity and of adequacy. Its rows called situational are priority tasks."""
