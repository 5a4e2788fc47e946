// @pure

/** What is listed by how often it came. */
export const analyticsLists = ["paths", "referrers", "countries", "devices", "browsers", "operatingSystems"] as const;
export type AnalyticsList = (typeof analyticsLists)[number];

/** A value and how often it came. */
export type Counted = [value: string, count: number];

/** What visitors looked at within some time, as the column `data` of `analytics_hour`, `_day` and `_month` holds it. */
export interface AnalyticsData extends Record<AnalyticsList, Counted[]> {
  /** Some page views were not looked at, and others count for them. */
  sampled: boolean;
  s2xx: number;
  s3xx: number;
  s4xx: number;
  s5xx: number;
}

const statusClasses = ["s2xx", "s3xx", "s4xx", "s5xx"] as const;

/** What there was no room for. */
const otherValue = "(other)";

export const noAnalytics = (): AnalyticsData => ({
  ...{ sampled: false, s2xx: 0, s3xx: 0, s4xx: 0, s5xx: 0 },
  ...{ paths: [], referrers: [], countries: [], devices: [], browsers: [], operatingSystems: [] },
});

/**
 * All of it together: of each list the most frequent `valuesMax` values, the most frequent first.
 *
 * @param keepsRest whether the rest becomes one more value, so that the sum of each list stays
 */
export function addUp(all: Iterable<AnalyticsData>, valuesMax: number, keepsRest: boolean): AnalyticsData {
  const sum = noAnalytics();
  const totals = new Map(analyticsLists.map((list) => [list, new Map<string, number>()]));
  for (const each of all) {
    sum.sampled ||= each.sampled;
    for (const status of statusClasses) sum[status] = bounded(sum[status] + each[status]);
    for (const [list, total] of totals) {
      for (const [value, count] of each[list]) total.set(value, bounded((total.get(value) ?? 0) + count));
    }
  }
  for (const [list, total] of totals) sum[list] = mostFrequent(total, valuesMax, keepsRest);
  return sum;
}

function mostFrequent(total: ReadonlyMap<string, number>, valuesMax: number, keepsRest: boolean): Counted[] {
  const sorted = [...total].sort(([a, times], [b, more]) => more - times || (a < b ? -1 : 1));
  if (sorted.length <= valuesMax) return sorted;
  if (!keepsRest) return sorted.slice(0, valuesMax);
  const isOther = ([value]: Counted) => value === otherValue;
  const named = sorted.filter((each) => !isOther(each));
  const rest = [...named.slice(valuesMax), ...sorted.filter(isOther)];
  const count = rest.reduce((all, [, times]) => bounded(all + times), 0);
  return [...named.slice(0, valuesMax), ...(count > 0 ? [[otherValue, count] satisfies Counted] : [])];
}

const bounded = (count: number): number => Math.min(count, Number.MAX_SAFE_INTEGER);
