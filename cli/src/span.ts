const unitMs: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
};

/** Milliseconds of a span as people write it (`90s`, `15m`, `1h30m`, `2d`); null when it is none. */
export function parseSpan(text: string): number | null {
  if (!/^(?:\d{1,9}(?:ms|[smhdw]))+$/.test(text)) return null;
  let spanMs = 0;
  for (const [, count = "0", unit = "s"] of text.matchAll(/(\d+)(ms|[smhdw])/g))
    spanMs += Number(count) * (unitMs[unit] ?? 0);
  return spanMs;
}
