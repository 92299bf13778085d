// The Grafana dashboard asks for nothing that `/metrics` does not have: each metric and label of its expressions is in docs/reference/metrics.md,
// which a test of crates/serve holds against the program.
import assert from "node:assert/strict";
import { test } from "node:test";
import { documented, exprs, namesOf, panels, selectors } from "./grafana.ts";

test("every metric of every expression is documented, with every label that is chosen or grouped by", () => {
  const metrics = documented();
  assert.ok(metrics.size > 40, `${metrics.size} metrics`);
  const all = exprs();
  assert.ok(all.length > 30);
  for (const expr of all) {
    const names = namesOf(expr);
    assert.ok(names.length > 0, expr);
    const labels = new Set<string>(["le", "instance", "job"]);
    for (const name of names) {
      const own = metrics.get(name);
      assert.ok(own, `${name} is not in docs/reference/metrics.md: ${expr}`);
      own.forEach((label) => labels.add(label));
    }
    for (const { name, label } of selectors(expr)) assert.ok(metrics.get(name)!.has(label) || label === "instance", `${name} has no label ${label}: ${expr}`);
    for (const [, list] of expr.matchAll(/\bby \(([^)]*)\)/g)) for (const label of list!.split(",").map((word) => word.trim())) assert.ok(labels.has(label), `${label}: ${expr}`);
  }
});

test("legends name labels that are grouped by; panels have titles, and lie beside each other, not over", () => {
  for (const panel of panels()) {
    assert.ok(panel.title !== "", JSON.stringify(panel.gridPos));
    for (const { expr, legendFormat } of panel.targets ?? []) {
      const grouped = new Set([...expr.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, list]) => list!.split(",").map((word) => word.trim())));
      for (const [, label] of (legendFormat ?? "").matchAll(/\{\{(\w+)\}\}/g)) assert.ok(grouped.has(label!), `${label}: ${expr}`);
    }
  }
  const cells = new Set<string>();
  for (const { gridPos } of panels()) for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++) for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
    assert.ok(x < 24 && !cells.has(`${x},${y}`), `${x},${y}`);
    cells.add(`${x},${y}`);
  }
});
