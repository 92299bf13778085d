// What a CPU profile of the page says, for the tours.

/** Where the page's thread spent its time: the twenty dearest functions, by self time. */
export function selfTimes(profile: { nodes: { id: number; callFrame: { functionName: string; lineNumber: number; columnNumber: number } }[]; samples?: number[]; timeDeltas?: number[] }): string {
  const byId = new Map(profile.nodes.map((node) => [node.id, node]));
  const sums = new Map<string, number>();
  profile.samples?.forEach((id, i) => {
    const frame = byId.get(id)!.callFrame;
    const name = `${frame.functionName || "anonymous"}:${frame.lineNumber}:${frame.columnNumber}`;
    sums.set(name, (sums.get(name) ?? 0) + (profile.timeDeltas?.[i] ?? 0) / 1000);
  });
  return [...sums].sort((a, b) => b[1] - a[1]).slice(0, 20).map(([name, ms]) => `${ms.toFixed(0).padStart(7)} ms  ${name}`).join("\n");
}
