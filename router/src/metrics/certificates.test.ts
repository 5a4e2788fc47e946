import { expect, test } from "vitest";
import { setCertificates } from "./certificates.ts";
import { createMetrics } from "./metrics.ts";

test("certificates are counted by how long they are still good, and those that are gone no more", async () => {
  const metrics = createMetrics();
  const now = new Date("2030-01-01T00:00:00.000Z");
  const inDays = (days: number) => new Date(now.getTime() + days * 86_400_000);
  const counts = async () => {
    const { values } = await metrics.certificates.get();
    return Object.fromEntries(values.map(({ labels, value }) => [labels.left, value]));
  };
  setCertificates(metrics, [-3, 0.5, 1, 2, 29, 31, 89].map(inDays), now);
  expect(await counts()).toEqual({ over: 1, "1d": 2, "7d": 1, "30d": 1, more: 2 });
  setCertificates(metrics, [], now);
  expect(await counts()).toEqual({ over: 0, "1d": 0, "7d": 0, "30d": 0, more: 0 });
});
