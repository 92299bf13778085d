"""What SciPy says of the cases on standard input: one JSON line in, one JSON line out.

Where SciPy has no function (intervals by Walsh averages, Holm's correction, the exact distribution with ties) the
definition is written out here, slowly and with whole numbers.
"""

import json
import sys
from fractions import Fraction
from functools import lru_cache
from types import SimpleNamespace

import numpy as np
from scipy import special, stats


def walsh(values):
    values = np.asarray(values)
    rows, columns = np.triu_indices(len(values))
    return np.sort((values[rows] + values[columns]) / 2)


@lru_cache(maxsize=None)
def signed_rank_counts(n):
    """In how many of the 2^n cases W+ is 0, 1, ..."""
    counts = [1]
    for rank in range(1, n + 1):
        longer = counts + [0] * rank
        for at, ways in enumerate(counts):
            longer[at + rank] += ways
        counts = longer
    return counts


@lru_cache(maxsize=None)
def mann_whitney_counts(n, m):
    """In how many orders U is 0, 1, ...: the largest value is in one sample or the other."""
    if n == 0 or m == 0:
        return (1,)
    counts = [0] * (n * m + 1)
    for at, ways in enumerate(mann_whitney_counts(n - 1, m)):
        counts[at + m] += ways
    for at, ways in enumerate(mann_whitney_counts(n, m - 1)):
        counts[at] += ways
    return tuple(counts)


def ends(ordered, counts, confidence):
    """The interval of the ordered averages or differences, and the confidence that it has."""
    tail, total, below, k = (1 - confidence) / 2, sum(counts), 0, 0
    outside = None
    for ways in counts:
        if float(Fraction(below + ways, total)) > tail:
            break
        below += ways
        k += 1
        outside = float(Fraction(below, total))
    if k == 0:
        return None
    return [ordered[k - 1], ordered[-k], 1 - 2 * outside]


def by_signs(differences, zeros):
    """Every case of the signs, with shared ranks, by whole numbers."""
    kept = [d for d in differences if zeros == "pratt" or d != 0]
    ranks = [round(2 * rank) for rank in stats.rankdata(np.abs(kept))]
    ranked = [(rank, d > 0) for rank, d in zip(ranks, kept) if d != 0]
    if not ranked:
        return None
    ways = {0: 1}
    for rank, _ in ranked:
        longer = dict(ways)
        for total, count in ways.items():
            longer[total + rank] = longer.get(total + rank, 0) + count
        ways = longer
    got = sum(rank for rank, is_positive in ranked if is_positive)
    low = sum(count for total, count in ways.items() if total <= got)
    high = sum(count for total, count in ways.items() if total >= got)
    return min(1.0, 2 * float(Fraction(min(low, high), 2 ** len(ranked))))


def inverts(test, interval, scale, confidence):
    """Do SciPy's own tests reject just outside of the interval's ends, and not just inside?"""
    low, high, _ = interval
    step = 1e-9 * scale
    level = 1 - confidence
    outside = [test(low - step), test(high + step)]
    inside = [test(low + step), test(high - step)]
    return max(outside) <= level and (low == high or min(inside) > level)


def paired(case):
    d = np.asarray(case["values"])
    has_ties = len(set(np.abs(d))) < len(d) or (d == 0).any()
    out = {
        "centre": float(np.median(walsh(d))),
        "interval": ends(walsh(d).tolist(), signed_rank_counts(len(d)), case["confidence"]),
        "drop": by_signs(d, "wilcox"),
        "pratt": by_signs(d, "pratt"),
    }
    if (d != 0).any():
        for zeros, name in (("wilcox", "drop"), ("pratt", "pratt")):
            asymptotic = stats.wilcoxon(d, zero_method=zeros, correction=True, method="asymptotic")
            out[name + "_normal"] = float(asymptotic.pvalue)
            if not has_ties:
                out[name + "_scipy"] = float(stats.wilcoxon(d, method="exact").pvalue)
            elif len(d) <= 10:
                every = stats.PermutationMethod(n_resamples=2 ** len(d))
                out[name + "_scipy"] = float(stats.wilcoxon(d, zero_method=zeros, method=every).pvalue)
        out["statistic"] = float(stats.wilcoxon(d, alternative="greater", method="asymptotic").statistic)
    if not has_ties and out["interval"]:
        out["inverts"] = bool(inverts(
            lambda at: stats.wilcoxon(d - at, method="exact").pvalue,
            out["interval"], np.abs(d).max(), case["confidence"]))
    return out


def unpaired(case):
    x, y = np.asarray(case["first"]), np.asarray(case["second"])
    differences = np.sort(np.subtract.outer(y, x).ravel())
    asymptotic = stats.mannwhitneyu(y, x, method="asymptotic", use_continuity=True)
    out = {
        "shift": float(np.median(differences)),
        "interval": ends(differences.tolist(), mann_whitney_counts(len(x), len(y)), case["confidence"]),
        "statistic": float(asymptotic.statistic),
        "normal": float(asymptotic.pvalue),
    }
    if len(set(x) | set(y)) == len(x) + len(y):
        out["exact"] = float(stats.mannwhitneyu(y, x, method="exact").pvalue)
        if out["interval"]:
            out["inverts"] = bool(inverts(
                lambda at: stats.mannwhitneyu(y - at, x, method="exact").pvalue,
                out["interval"], np.abs(differences).max(), case["confidence"]))
    return out


def holm(case):
    """The definition: over all p up to this one, the largest of p times how many are not smaller."""
    p = case["p"]
    left = {value: sum(other >= value for other in p) for value in p}
    return {"adjusted": [min(1.0, max(left[up_to] * up_to for up_to in p if up_to <= value))
                         for value in p]}


STATISTICS = {
    "centre": lambda values, axis=-1: float(np.median(walsh(values))),
    "median": lambda values, axis=-1: float(np.median(values)),
    # Added up one after the other: pairwise, equal means would differ in the last bit.
    "mean": lambda values, axis=-1: float(np.add.accumulate(values)[-1] / len(values)),
}


def bootstrap(case):
    """SciPy's intervals from our resamples."""
    statistic = STATISTICS[case["statistic"]]
    drawn = SimpleNamespace(bootstrap_distribution=np.asarray(case["distribution"]))
    out = {}
    for method in ("BCa", "percentile"):
        found = stats.bootstrap(
            (np.asarray(case["values"]),), statistic, n_resamples=0, bootstrap_result=drawn,
            vectorized=False, confidence_level=case["confidence"], method=method)
        low, high = found.confidence_interval
        out[method] = None if np.isnan(low) else [float(low), float(high)]
    return out


def describe(case):
    values = np.asarray(case["values"])
    kendall = stats.kendalltau(np.arange(len(values)), values, method="asymptotic")
    return {
        "quantiles": [float(np.quantile(values, q)) for q in case["q"]],
        "mad": float(stats.median_abs_deviation(values)),
        "slope": float(stats.theilslopes(values).slope),
        "trend": float(kendall.pvalue),
    }


def normal(case):
    return {
        "cdf": [float(special.ndtr(z)) for z in case["z"]],
        "sf": [float(special.ndtr(-z)) for z in case["z"]],
        "ppf": [float(special.ndtri(p)) for p in case["p"]],
    }


def main():
    kinds = {"paired": paired, "unpaired": unpaired, "holm": holm, "bootstrap": bootstrap,
             "describe": describe, "normal": normal}
    for line in sys.stdin:
        case = json.loads(line)
        print(json.dumps(kinds[case["kind"]](case)), flush=True)


main()
