import { create } from "@bufbuild/protobuf";
import { type AnalyticsRow, AnalyticsRowSchema } from "@svc/proto/edge";
import { encodeUniques } from "@svc/proto/uniques";
import type { Sketch } from "./sketch.ts";
import { certain, type TopValues } from "./top-values.ts";

/** What there was no room for. */
const otherValue = "(other)";

export function rowOf(sketch: Sketch): AnalyticsRow {
  const { series, seq, projectId, channel, hour, sampled, statuses, lists } = sketch;
  const [status2xx, status3xx, status4xx, status5xx] = statuses.map(BigInt);
  return create(AnalyticsRowSchema, {
    ...{ series, seq: BigInt(seq), projectId, channel, hour: BigInt(hour), sampled },
    ...{
      status2xx: status2xx ?? 0n,
      status3xx: status3xx ?? 0n,
      status4xx: status4xx ?? 0n,
      status5xx: status5xx ?? 0n,
    },
    paths: countsOf(lists.paths),
    referrers: countsOf(lists.referrers),
    countries: countsOf(lists.countries),
    devices: countsOf(lists.devices),
    browsers: countsOf(lists.browsers),
    operatingSystems: countsOf(lists.operatingSystems),
    visitors: encodeUniques(sketch.visitors),
  });
}

function countsOf(values: TopValues): { value: string; count: bigint }[] {
  const { counts, other } = certain(values);
  const all = other === 0 ? counts : [...counts, { value: otherValue, count: other }];
  return all.map(({ value, count }) => ({ value, count: BigInt(count) }));
}
