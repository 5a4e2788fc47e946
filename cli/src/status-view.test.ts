import { expect, test } from "vitest";
import { displayWidth } from "./format.ts";
import { plain } from "./paint.ts";
import { deploymentList, headline, type Row } from "./status-view.ts";

const now = new Date("2030-01-01T12:00:00Z");
const view = { paint: plain, now, columns: null };
const row = (id: string, status: string, fields: Partial<Row> = {}): Row => ({
  id: `${id}0000000-0000-4000-8000-000000000000`,
  status,
  channel: "production",
  error: null,
  createdAt: "2030-01-01T11:00:00Z",
  ...fields,
});
const failed = row("2", "failed", {
  error: "The build failed. The build log says why.\nAnd more.",
  release: { status: "skipped" },
});

test.each([
  [[row("1", "running")], "Production is running, deployed 1 h ago"],
  [[failed, row("1", "running")], "Production is running, deployed 1 h ago; the latest deployment is failed"],
  [[failed], "Production has never run; the latest deployment is failed"],
  [[row("1", "running", { channel: "preview" })], "Production has never run"],
])("the headline is about production", (rows, text) => {
  expect(headline(false, rows, view)).toBe(text);
});

test("the list has every channel, the release where there is one, and the first line of an error", () => {
  expect(deploymentList([failed, row("1", "running", { channel: "preview", gitPrNumber: 7 })], view)).toBe(
    [
      "STATUS   CHANNEL     RELEASE  CREATED  DEPLOYMENT",
      "failed   production  skipped  1 h ago  20000000-0000-4000-8000-000000000000",
      "  The build failed. The build log says why.",
      "running  preview #7  -        1 h ago  10000000-0000-4000-8000-000000000000",
    ].join("\n"),
  );
});

test("on a narrow terminal no line is wider than it", () => {
  const lines = deploymentList([failed, row("1", "running")], { ...view, columns: 40 }).split("\n");
  expect(lines).toEqual([
    "failed  production  skipped  1 h ago",
    "  20000000-0000-4000-8000-000000000000",
    "  The build failed. The build log says …",
    "running  production  -  1 h ago",
    "  10000000-0000-4000-8000-000000000000",
  ]);
  expect(Math.max(...lines.map(displayWidth))).toBeLessThanOrEqual(40);
});
