// The bar that says how far the making of tables and tiles is.
import type { BuildState } from "../api/types.ts";
import { count } from "../core/format.ts";
import { need } from "./dom.ts";

/** What is being made, in words; each but the first has a share. */
const STAGES: Readonly<Record<string, string>> = {
  tables: "Checking the recording",
  rows: "Step 1 of 3: reading the recording",
  events: "Step 2 of 3: writing events into tables",
  tiles: "Step 3 of 3: building tiles; finished tiles are shown",
};

/** Shows it; hides the bar when all is made. */
export function showProgress(building: BuildState): void {
  const bar = need("#progress");
  bar.hidden = building.state === "ready";
  const share = building.total > 0 ? Math.min(building.done / building.total, 1) : 0;
  const done = building.total > 0 ? `${Math.floor(share * 100)} %` : building.done > 0 ? count(building.done) : "";
  const failed = building.state === "failed";
  bar.classList.toggle("failed", failed);
  need("#progress span").style.width = `${failed ? 100 : share * 100}%`;
  need("#progress b").textContent = failed ? `The recording cannot be shown: ${building.error ?? "see the terminal output of transect view"}` : `${STAGES[building.stage ?? ""] ?? `Building ${building.stage ?? "tiles"}`} … ${done}`;
  if (building.total > 0) bar.setAttribute("aria-valuenow", String(Math.floor(share * 100)));
  else bar.removeAttribute("aria-valuenow");
}
