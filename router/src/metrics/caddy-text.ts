// @pure

/**
 * The value of a metric in the text format of Prometheus, all of its labels added up; null when it is not there.
 * Caddy has some only where its configuration asks for them.
 */
export function valueOfMetric(text: string, name: string): number | null {
  let sum: number | null = null;
  for (const line of text.split("\n")) {
    if (!line.startsWith(name) || !/^(?:\{.*\})? /.test(line.slice(name.length))) continue;
    const value = Number(line.slice(line.lastIndexOf(" ") + 1));
    if (Number.isFinite(value)) sum = (sum ?? 0) + value;
  }
  return sum;
}
