import { expect, test } from "vitest";
import { displayWidth } from "./format.ts";
import { plain } from "./paint.ts";
import { addressLines, deploymentList, headline, liveAddresses, type Row } from "./status-lines.ts";

const now = new Date("2030-01-01T12:00:00Z");
const screen = { paint: plain, now, columns: null };
const row = (id: string, status: string, fields: Partial<Row> = {}): Row => ({
  id: `${id}0000000-0000-4000-8000-000000000000`,
  status,
  channel: "production",
  error: null,
  trigger: "cli",
  gitSha: null,
  gitRef: null,
  createdAt: "2030-01-01T11:00:00Z",
  ...fields,
});
const sha = "0123456789abcdef0123456789abcdef01234567";
const failed = row("2", "failed", {
  error: "The build failed. The build log says why. Last lines:\nAnd more.",
  release: { status: "skipped" },
});

test.each([
  [[row("1", "running")], "Production is running, deployed 1 h ago"],
  [[failed, row("1", "running")], "Production is running, deployed 1 h ago; the latest deployment is failed"],
  [[row("1", "running", { gitSha: sha })], "Production is running, commit 0123456, deployed 1 h ago"],
  [[failed], "Production has never run; the latest deployment is failed"],
  [[row("1", "running", { channel: "preview" })], "Production has never run"],
])("the headline is about production", (rows, text) => {
  expect(headline(false, rows, screen)).toBe(text);
});

test("the list has every channel, the release where there is one, and the first line of an error", () => {
  expect(deploymentList([failed, row("1", "running", { channel: "preview", gitPrNumber: 7 })], screen)).toBe(
    [
      "STATUS   CHANNEL     RELEASE  CREATED  DEPLOYMENT",
      "failed   production  skipped  1 h ago  20000000-0000-4000-8000-000000000000",
      "  The build failed. The build log says why.",
      "running  preview #7  -        1 h ago  10000000-0000-4000-8000-000000000000",
    ].join("\n"),
  );
});

test("the list has commits and origins where there are any", () => {
  const pushed = row("1", "running", { trigger: "github-actions", gitSha: sha, gitRef: "refs/heads/main" });
  const back = row("2", "superseded", { trigger: "rollback", gitSha: sha, gitRef: "refs/heads/main" });
  expect(deploymentList([pushed, back, row("3", "superseded")], screen)).toBe(
    [
      "STATUS      CHANNEL     COMMIT   ORIGIN               CREATED  DEPLOYMENT",
      "running     production  0123456  github-actions main  1 h ago  10000000-0000-4000-8000-000000000000",
      "superseded  production  0123456  rollback             1 h ago  20000000-0000-4000-8000-000000000000",
      "superseded  production  -        -                    1 h ago  30000000-0000-4000-8000-000000000000",
    ].join("\n"),
  );
});

test("what has more to say takes more lines there", () => {
  const pushed = row("1", "running", { trigger: "github-actions", gitSha: sha, gitRef: "refs/heads/main" });
  expect(deploymentList([pushed], { ...screen, columns: 40 }).split("\n")).toEqual([
    "running  production  0123456",
    "  github-actions main  1 h ago",
    "  10000000-0000-4000-8000-000000000000",
  ]);
});

test("every address that something runs at is told once, production first", () => {
  const on = (channel: string, status: string, url: string, gitPrNumber: number | null = null) => ({
    ...{ id: url, channel, status, url, gitPrNumber },
  });
  const live = liveAddresses([
    on("dev", "running", "d"),
    on("preview", "running", "p9", 9),
    on("preview", "running", "p"),
    on("preview", "running", "p"),
    on("preview", "failed", "p2", 2),
    on("production", "running", "w", 9),
  ]);
  expect(live).toEqual([
    { channel: "production", url: "w", deploymentId: "w" },
    { channel: "preview", url: "p", deploymentId: "p" },
    { channel: "preview", gitPrNumber: 9, url: "p9", deploymentId: "p9" },
    { channel: "dev", url: "d", deploymentId: "d" },
  ]);
  expect(addressLines({ url: "w", live }, screen)).toEqual([
    "  production  w",
    "  preview     p",
    "  preview #9  p9",
    "  dev         d",
  ]);
  expect(addressLines({ url: "w", live: live.slice(0, 1) }, screen)).toEqual(["  w"]);
});

test("on a narrow terminal no line is wider than it", () => {
  const lines = deploymentList([failed, row("1", "running")], { ...screen, columns: 40 }).split("\n");
  expect(lines).toEqual([
    "failed  production  skipped  1 h ago",
    "  20000000-0000-4000-8000-000000000000",
    "  The build failed. The build log says …",
    "running  production  1 h ago",
    "  10000000-0000-4000-8000-000000000000",
  ]);
  expect(Math.max(...lines.map(displayWidth))).toBeLessThanOrEqual(40);
});

test("what falls over is not simply running, above and in the list", () => {
  const at = "2030-01-01T11:59:00Z";
  const crashing = { since: at, lastAt: at, count: 2, reason: "The app exited with code 7.", nextStartAt: at };
  const rows = [row("1", "running", { crashing })];
  expect(headline(false, rows, screen)).toBe("Production is crashing, deployed 1 h ago");
  expect(deploymentList(rows, screen).split("\n").slice(1)).toEqual([
    "crashing  production  1 h ago  10000000-0000-4000-8000-000000000000",
    "  ended 2 times in 1 min, last 1 min ago: The app exited with code 7.",
  ]);
});
