import { splitLastLines } from "@svc/proto";
import type { Screen } from "./command.ts";
import { crashLines, type MayCrash, shownStatus } from "./crash-lines.ts";
import { displayWidth, formatAge, shortCommit, table } from "./format.ts";
import { paintStatus } from "./paint.ts";

/** A deployment as `svc status` lists it. */
export type Row = Pick<MayCrash, "crashing"> & {
  id: string;
  status: string;
  channel: string;
  error: string | null;
  release?: { status: string };
  gitPrNumber?: number;
  trigger: string | null;
  gitSha: string | null;
  gitRef: string | null;
  /** Absent from a platform that does not tell. */
  placement?: { problem?: { message: string } | null | undefined };
  createdAt: string;
};

/** Where a channel, or the preview of a pull request, is reached. */
export interface Address {
  channel: string;
  gitPrNumber?: number;
  url: string;
  deploymentId: string;
}

interface Running {
  id: string;
  status: string;
  channel: string;
  url: string;
  gitPrNumber: number | null;
}

/** Every address that something runs at, each once: production, previews, dev. */
export function liveAddresses(deployments: readonly Running[]): Address[] {
  const addresses = new Map<string, Address>();
  for (const { id, status, channel, url, gitPrNumber } of deployments) {
    const number = channel === "preview" && gitPrNumber !== null ? { gitPrNumber } : {};
    if (status === "running" && !addresses.has(url)) addresses.set(url, { channel, ...number, url, deploymentId: id });
  }
  const rank = ({ channel, gitPrNumber = 0 }: Address): number =>
    ["production", "preview", "dev"].indexOf(channel) * 1e10 + gitPrNumber;
  return [...addresses.values()].sort((left, right) => rank(left) - rank(right));
}

/** The project's address, and those of its other channels where something runs, each with its channel then. */
export function addressLines({ url, live }: { url: string; live: readonly Address[] }, { paint }: Screen): string[] {
  const others = live.filter(({ channel }) => channel !== "production");
  if (others.length === 0) return [`  ${url}`];
  const rows = [["production", url], ...others.map((each) => [channelName(each), each.url])];
  return table(rows.map(([name = "", address = ""]) => [paint("dim", name), address]))
    .split("\n")
    .map((line) => `  ${line}`);
}

const channelName = ({ channel, gitPrNumber }: { channel: string; gitPrNumber?: number }): string =>
  gitPrNumber === undefined ? channel : `${channel} #${gitPrNumber}`;

/** One line on production: what visitors see now. */
export function headline(isSuspended: boolean, deployments: readonly Row[], { paint, now }: Screen): string {
  if (isSuspended) return paint("red", "Production is suspended");
  const production = deployments.filter(({ channel }) => channel === "production");
  const live = production.find(({ status }) => status === "running" || status === "stopped");
  const newest = production[0];
  const head =
    live === undefined
      ? "Production has never run"
      : `Production is ${paintStatus(paint, shownStatus(live))}${live.gitSha === null ? "" : `, commit ${shortCommit(live.gitSha)}`}, deployed ${formatAge(live.createdAt, now)}`;
  if (newest === undefined || newest === live) return head;
  return `${head}; the latest deployment is ${paintStatus(paint, newest.status)}`;
}

/** The deployments as a table, or where the terminal is too narrow for one, each in two lines. What failed says why below. */
export function deploymentList(deployments: readonly Row[], screen: Screen): string {
  const { paint, columns } = screen;
  const columnsShown = optional.filter(({ text }) => deployments.some((row) => text(row, screen) !== null));
  const header = ["STATUS", "CHANNEL", ...columnsShown.map(({ title }) => title), "CREATED", "DEPLOYMENT"];
  const rows = deployments.map((row) => [
    paintStatus(paint, shownStatus(row)),
    channelName(row),
    ...columnsShown.map(({ text }) => text(row, screen) ?? "-"),
    formatAge(row.createdAt, screen.now),
    row.id,
  ]);
  const lines = table([header.map((cell) => paint("dim", cell)), ...rows]).split("\n");
  const fits = columns === null || Math.max(...lines.map(displayWidth)) <= columns;
  const head = fits ? lines.slice(0, 1) : [];
  const body = deployments.flatMap((row, at) => [
    ...(fits
      ? [lines[at + 1] ?? ""]
      : stacked(
          (rows[at] ?? []).filter((cell) => cell !== "-"),
          columns ?? 0,
        )),
    ...crashLines(row, screen),
    ...errorLines(row, screen),
  ]);
  return [...head, ...body].join("\n");
}

/** Columns that are shown where any deployment has something to say in them. */
const optional: readonly { title: string; text(row: Row, screen: Screen): string | null }[] = [
  { title: "RELEASE", text: ({ release }, { paint }) => (release ? paintStatus(paint, release.status) : null) },
  { title: "COMMIT", text: ({ gitSha }) => (gitSha === null ? null : shortCommit(gitSha)) },
  { title: "ORIGIN", text: originOf },
];

/** What made a deployment, with the branch or tag where a pipeline did; null for somebody's own command line. */
function originOf({ trigger, gitRef }: Row): string | null {
  if (trigger === null || trigger === "cli") return null;
  const isPipeline = trigger !== "rollback" && trigger !== "promote";
  return isPipeline && gitRef !== null ? `${trigger} ${gitRef.replace(/^refs\/(heads|tags)\//, "")}` : trigger;
}

/** The same in short lines, which need no columns to be filled: what it is, in as many as it takes, and what it is called. */
function stacked(row: readonly string[], columns: number): string[] {
  const lines: string[] = [];
  for (const cell of row.slice(0, -1)) {
    const line = lines.at(-1);
    if (line === undefined) lines.push(cell);
    else if (displayWidth(line) + 2 + displayWidth(cell) <= columns) lines[lines.length - 1] = `${line}  ${cell}`;
    else lines.push(`  ${cell}`);
  }
  return [...lines, `  ${row.at(-1) ?? ""}`];
}

function errorLines({ error, placement }: Row, { paint, columns }: Screen): string[] {
  const reason = error === null ? placement?.problem?.message : splitLastLines(error).reason;
  const first = reason?.split("\n")[0] ?? "";
  if (first === "") return [];
  const room = (columns ?? Number.POSITIVE_INFINITY) - 2;
  const text = displayWidth(first) > room ? `${first.slice(0, Math.max(0, room - 1))}…` : first;
  return [`  ${paint("dim", text)}`];
}
