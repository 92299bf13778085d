// Bytes as people read them.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"] as const;

/** `512 B`, `1.5 MiB`. */
export function bytes(n: number): string {
  if (!Number.isFinite(n)) return "–";
  let [value, unit] = [n, 0];
  while (value >= 1024 && unit < UNITS.length - 1) [value, unit] = [value / 1024, unit + 1];
  const digits = unit === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  const text = value.toFixed(digits);
  return `${digits > 0 ? text.replace(/\.?0+$/, "") : text} ${UNITS[unit]!}`;
}
