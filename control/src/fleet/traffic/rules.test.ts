import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { TrafficCountSchema } from "@svc/proto/edge";
import { expect, test } from "vitest";
import { bandwidthMb, monthOf } from "../../identity/plans/usage.ts";
import { rowsMax, trafficRow, trafficRows } from "./rules.ts";

const projectId = "11111111-2222-4333-8444-555555555555";
const now = new Date("2030-01-31T23:30:00.000Z");
const hour = Math.floor(now.getTime() / 3_600_000);
const aCount = (fields: MessageInitShape<typeof TrafficCountSchema> = {}) =>
  create(TrafficCountSchema, { projectId, channel: "production", hour: BigInt(hour), requests: 3n, ...fields });

test("a count becomes a row of its hour", () => {
  expect(trafficRow(aCount({ bytesIn: 1n, bytesOut: 2n, status2xx: 2n, status5xx: 1n }), now)).toEqual({
    ...{ projectId, channel: "production", hour: new Date("2030-01-31T23:00:00.000Z") },
    ...{ requests: 3, bytesIn: 1, bytesOut: 2, s2xx: 2, s3xx: 0, s4xx: 0, s5xx: 1, metered: true },
  });
  expect(trafficRow(aCount({ unmetered: true }), now)).toMatchObject({ metered: false });
});

test.each([
  { when: "the project is no id", fields: { projectId: "p1" } },
  { when: "the channel is none of ours", fields: { channel: "staging" } },
  { when: "it is of last year", fields: { hour: BigInt(hour - 41 * 24) } },
  { when: "it is yet to come", fields: { hour: BigInt(hour + 3) } },
  { when: "a number is beyond all", fields: { bytesOut: 2n ** 60n } },
  { when: "no edge sends so much in an hour", fields: { bytesOut: 2n ** 46n + 1n } },
  { when: "no edge receives so much in an hour", fields: { bytesIn: 2n ** 46n + 1n } },
  { when: "no edge is asked so often in an hour", fields: { requests: 2n ** 36n + 1n } },
  { when: "no edge answers so often in an hour", fields: { status4xx: 2n ** 36n + 1n } },
])("a count is dropped when $when", ({ fields }) => {
  expect(trafficRow(aCount(fields), now)).toBeNull();
});

test("what a busy edge can have counted in an hour is a row", () => {
  const busy = { requests: 2n ** 36n, status2xx: 2n ** 36n, bytesIn: 2n ** 46n, bytesOut: 2n ** 46n };
  expect(trafficRow(aCount(busy), now)).toMatchObject({ requests: 2 ** 36, bytesOut: 2 ** 46 });
});

test("of a batch each hour of a channel counts once, and only so many rows", () => {
  const many = Array.from({ length: rowsMax + 5 }, (_, n) =>
    aCount({ projectId: `11111111-2222-4333-8444-${String(n).padStart(12, "0")}` }),
  );
  expect(trafficRows(many, now)).toHaveLength(rowsMax);
  const twice = [aCount({ requests: 1n }), aCount({ requests: 2n }), aCount({ unmetered: true, requests: 4n })];
  expect(trafficRows([...twice, aCount({ channel: "dev" })], now).map(({ requests }) => requests)).toEqual([1, 4, 3]);
});

test("months are those of UTC", () => {
  expect(monthOf(now)).toBe("2030-01-01");
  expect(monthOf(new Date("2030-02-01T00:00:00.000Z"))).toBe("2030-02-01");
});

test("bandwidth is both directions, in MiB", () => {
  expect(bandwidthMb({ bytesIn: 1024 ** 2, bytesOut: 512 * 1024 })).toBe(1.5);
  expect(bandwidthMb({ bytesIn: 0, bytesOut: 0 })).toBe(0);
});
