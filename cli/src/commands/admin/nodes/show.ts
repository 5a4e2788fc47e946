import { type NodeDetail, type NodeEdge, nodeReply } from "@svc/proto";
import { command, type Screen } from "../../../command.ts";
import { blockerText } from "../../../drain/judge.ts";
import { formatAge, formatBytes, formatDuration, formatExpiry, table } from "../../../format.ts";
import { listing } from "../../../listing.ts";
import { nodeArguments } from "../../../node-action.ts";
import { findNode, seenText } from "../../../nodes.ts";
import { paintStatus } from "../../../paint.ts";

export const adminNodesShow = command({
  name: "admin nodes show",
  summary: "Show one machine of the fleet: what it has, what it runs, and what happened to it",
  arguments: nodeArguments,
  examples: ["svc admin nodes show node-1"],
  async run(context, { node: named }) {
    const api = await context.api();
    const { id } = await findNode(api, named);
    const { node } = await api.get(`/admin/nodes/${id}`, nodeReply);
    return { node };
  },
  render: ({ node }, screen) => {
    const { paint } = screen;
    const reason = node.reason === null ? "" : ` ${paint("dim", `(${node.reason})`)}`;
    return [
      `${paint("bold", node.name)} is ${paintStatus(paint, node.status)}${reason}`,
      ...factsOf(node, screen).map(([name, value]) => `  ${name.padEnd(13)}${value}`),
      ...section(screen, "Left to move", node.drain.blockers.map(blockerText)),
      ...section(screen, "Runs", node.placements.length === 0 ? [] : placementLines(node, screen)),
      ...section(screen, "Lately", eventLines(node, screen)),
    ].join("\n");
  },
});

function section({ paint }: Screen, title: string, lines: readonly string[]): string[] {
  return lines.length === 0 ? [] : ["", paint("bold", title), ...lines.map((line) => `  ${line}`)];
}

function factsOf(node: NodeDetail, { now }: Screen): [string, string][] {
  const { capacity, allocated, used, drain } = node;
  const labelText = (labels: Readonly<Record<string, string>>) =>
    Object.entries(labels)
      .map(([name, value]) => `${name}=${value}`)
      .join(", ") || "-";
  const of = (taken: number | undefined, whole: number | undefined, unit: string, inUse?: number) => {
    if (whole === undefined) return "-";
    return `${taken ?? 0} of ${whole}${unit} set aside${inUse === undefined ? "" : `, ${inUse} used`}`;
  };
  return [
    ["id", node.id],
    ["role", node.role],
    ["link", `${node.link.state}, ${formatAge(node.link.since, now)}`],
    ["seen", seenText(node, now)],
    ["version", node.version ?? "-"],
    ["platform", node.platform === null ? "-" : `${node.platform.os}/${node.platform.architecture}`],
    ["memory", of(allocated?.memoryMb, capacity?.memoryMb, " MiB", used?.memoryMb)],
    ...(node.memoryShort === true
      ? [["memory left", "almost none: it takes no new work"] satisfies [string, string]]
      : []),
    ["cpu", of(allocated?.cpuMillicores, capacity?.cpuMillicores, " millicores", used?.cpuMillicores)],
    ["processes", of(allocated?.pids, capacity?.pids, "")],
    ["disk", diskText(node)],
    ...(node.engineStalled ? [["engine", "does not answer: it takes no new work"] satisfies [string, string]] : []),
    ...(node.dockerfileProblem === null
      ? []
      : [["Dockerfiles", `not built here: ${node.dockerfileProblem}`] satisfies [string, string]]),
    ...(node.refusal === null ? [] : [["turned away", node.refusal] satisfies [string, string]]),
    ["zone", node.zone ?? "-"],
    ["labels", labelText(node.labels)],
    ["by operators", labelText(node.operatorLabels)],
    ["certificate", formatExpiry(node.certificateExpiresAt, now)],
    ["joined", formatAge(node.createdAt, now)],
    ...(node.edge == null ? [] : [["visitors", edgeText(node.edge)] satisfies [string, string]]),
    ...(drain.state === "none" ? [] : [["drain", drainText(drain, now)] satisfies [string, string]]),
    ["actions", node.actions.join(", ") || "-"],
  ];
}

/** Whether visitors come to an edge, and what keeps them away. */
function edgeText({ inRotation, phase, lacks, unready }: NodeEdge): string {
  const place = inRotation ? "in rotation" : "out of rotation";
  if (phase === null) return place;
  const words = [place, phase === "serving" ? null : phase, lacks === null ? null : `lacks ${lacks}`];
  const health = unready === null ? "health is good" : `health is bad: ${unready}`;
  return [...words.filter((word) => word !== null), health].join(", ");
}

function diskText({ capacity, diskFull }: NodeDetail): string {
  if (capacity === null) return "-";
  const size = formatBytes(capacity.diskMb * 1024 * 1024);
  return diskFull ? `${size}, almost full: it takes no new work` : size;
}

function drainText({ state, remaining, startedAt, deadline }: NodeDetail["drain"], now: Date): string {
  const begun = `begun ${formatAge(startedAt, now)}`;
  if (state === "drained") return `done, ${begun}`;
  const leftMs = deadline === null ? 0 : Date.parse(deadline) - now.getTime();
  const time = leftMs > 0 ? `${formatDuration(leftMs)} to go` : "time is up";
  return `${remaining} left, ${begun}, ${time}`;
}

function placementLines({ placements, link }: NodeDetail, screen: Screen): string[] {
  const header = ["PROJECT", "CHANNEL", "REPLICA", "STATE", "SINCE"];
  const stateText = (state: string, health: string | null) => {
    // Of what runs, more is known than that.
    const word = state === "running" && health !== null ? health : state;
    return link.state === "unreachable" && state !== "placed" ? `${word} when last heard` : word;
  };
  const rows = placements.map(({ project, channel, prNumber, kind, replica, state, health, since }) => [
    project,
    prNumber === null ? channel : `${channel} ${prNumber}`,
    kind === "build" ? "build" : String(replica),
    stateText(state, health),
    formatAge(since, screen.now),
  ]);
  return listing(header, rows, { ...screen, columns: screen.columns === null ? null : screen.columns - 2 }).split("\n");
}

function eventLines({ events }: NodeDetail, { now }: Screen): string[] {
  if (events.length === 0) return [];
  return table(events.map(({ at, kind, detail }) => [formatAge(at, now), kind, detail ?? ""])).split("\n");
}
