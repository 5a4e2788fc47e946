import type { View } from "./command.ts";
import { displayWidth, formatAge, table } from "./format.ts";
import { paintStatus } from "./paint.ts";

/** A deployment as `svc status` lists it. */
export type Row = {
  id: string;
  status: string;
  channel: string;
  error: string | null;
  release?: { status: string };
  gitPrNumber?: number;
  /** Absent from a platform that does not tell. */
  placement?: { problem?: { message: string } | null | undefined };
  createdAt: string;
};

/** One line on production: what visitors see now. */
export function headline(isSuspended: boolean, deployments: readonly Row[], { paint, now }: View): string {
  if (isSuspended) return paint("red", "Production is suspended");
  const production = deployments.filter(({ channel }) => channel === "production");
  const live = production.find(({ status }) => status === "running" || status === "stopped");
  const newest = production[0];
  const head =
    live === undefined
      ? "Production has never run"
      : `Production is ${paintStatus(paint, live.status)}, deployed ${formatAge(live.createdAt, now)}`;
  if (newest === undefined || newest === live) return head;
  return `${head}; the latest deployment is ${paintStatus(paint, newest.status)}`;
}

/** The deployments as a table, or where the terminal is too narrow for one, each in two lines. What failed says why below. */
export function deploymentList(deployments: readonly Row[], view: View): string {
  const { paint, columns } = view;
  const hasRelease = deployments.some(({ release }) => release !== undefined);
  const header = ["STATUS", "CHANNEL", ...(hasRelease ? ["RELEASE"] : []), "CREATED", "DEPLOYMENT"];
  const rows = deployments.map((row) => cells(row, hasRelease, view));
  const lines = table([header.map((cell) => paint("dim", cell)), ...rows]).split("\n");
  const fits = columns === null || Math.max(...lines.map(displayWidth)) <= columns;
  const head = fits ? lines.slice(0, 1) : [];
  const body = deployments.flatMap((row, at) => [
    ...(fits ? [lines[at + 1] ?? ""] : stacked(rows[at] ?? [])),
    ...errorLines(row, view),
  ]);
  return [...head, ...body].join("\n");
}

function cells(
  { id, status, channel, release, gitPrNumber, createdAt }: Row,
  hasRelease: boolean,
  view: View,
): string[] {
  const { paint, now } = view;
  return [
    paintStatus(paint, status),
    gitPrNumber === undefined ? channel : `${channel} #${gitPrNumber}`,
    ...(hasRelease ? [release === undefined ? "-" : paintStatus(paint, release.status)] : []),
    formatAge(createdAt, now),
    id,
  ];
}

/** The same in two short lines: what it is, and what it is called. */
const stacked = (row: readonly string[]): string[] => [row.slice(0, -1).join("  "), `  ${row.at(-1) ?? ""}`];

function errorLines({ error, placement }: Row, { paint, columns }: View): string[] {
  const first = (error ?? placement?.problem?.message)?.split("\n")[0] ?? "";
  if (first === "") return [];
  const room = (columns ?? Number.POSITIVE_INFINITY) - 2;
  const text = displayWidth(first) > room ? `${first.slice(0, Math.max(0, room - 1))}…` : first;
  return [`  ${paint("dim", text)}`];
}
