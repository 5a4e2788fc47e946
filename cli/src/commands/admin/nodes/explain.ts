import { type ExplainedNode, type ExplainedTask, explainPlacementReply } from "@svc/proto";
import { argument, command, type Screen } from "../../../command.ts";
import { CliError } from "../../../errors.ts";
import { displayWidth, formatAge, table, wrapText } from "../../../format.ts";
import { deploymentIdOf } from "../../../ids.ts";
import { paintStatus } from "../../../paint.ts";

export const adminNodesExplain = command({
  name: "admin nodes explain",
  summary: "Say where a deployment's containers are, why others wait, and which machines would take one more",
  details:
    "Every machine is asked whether it would take one more container now. Of those that would, the one with the highest score is taken; one that has a container of the deployment already only when no other would.",
  arguments: { deploymentId: argument.required("deployment-id", "See `svc status`") },
  examples: ["svc admin nodes explain 7b0f6c1e-58a1-4f0e-9d6c-3a1b2c4d5e6f"],
  async run(context, { deploymentId }) {
    const path = `/admin/placements/explain?deployment=${deploymentIdOf(deploymentId)}`;
    const { ok: _, ...explained } = await (await context.api()).get(path, explainPlacementReply).catch((thrown) => {
      if (!(thrown instanceof CliError) || thrown.code !== "CLOUD_NOT_FOUND") throw thrown;
      const hint = "The deployments of a project and their ids: `svc status --project <slug>`";
      throw new CliError("CLOUD_NOT_FOUND", `There is no deployment ${deploymentId}`, { hint });
    });
    return explained;
  },
  render: ({ deployment, request, tasks, nodes, failuresKnown }, screen) => {
    const { paint } = screen;
    const asks = [
      `${request.memoryMb} MiB`,
      `${request.cpuMillicores} millicores`,
      `${request.pidsLimit} process ids`,
      ...(request.platform === null ? [] : [`${request.platform.os}/${request.platform.architecture}`]),
      ...Object.entries(request.nodeSelector).map(([name, value]) => `${name}=${value}`),
    ];
    const what = request.kind === "build" ? "build" : "container";
    const fitting = nodes.filter(({ fits }) => fits).length;
    return [
      `${paint("bold", deployment.id)} is ${paintStatus(paint, deployment.status)} on ${deployment.channel}`,
      ...(tasks.length === 0 ? ["It has nothing on any machine."] : [taskTable(tasks, screen)]),
      "",
      `One more ${what} asks for ${asks.join(", ")}. ${fitting} of ${nodes.length} machines would take it:`,
      nodeTable(nodes, screen),
      ...(failuresKnown
        ? []
        : ["", "What failed of late is not counted: only the replica that leads knows, and this is another."]),
    ].join("\n");
  },
});

function taskTable(tasks: readonly ExplainedTask[], screen: Screen): string {
  const { paint, now } = screen;
  const header = ["WHAT", "MACHINE", "STATE", "MADE", "WHY"].map((cell) => paint("dim", cell));
  const rows = tasks.map(({ kind, replica, node, observed, health, retiring, createdAt, problem }) => [
    kind === "build" ? "build" : `replica ${replica}`,
    node?.name ?? "-",
    [node === null ? "waiting" : (observed ?? "assigned"), health, retiring ? "leaving" : null]
      .filter((word) => word !== null)
      .join(", "),
    formatAge(createdAt, now),
    problem ?? "-",
  ]);
  return lastBelow([header, ...rows], screen);
}

function nodeTable(nodes: readonly ExplainedNode[], screen: Screen): string {
  const { paint } = screen;
  if (nodes.length === 0) return "No machine has joined yet.";
  const header = ["MACHINE", "STATUS", "TAKES IT", "SCORE", "WHY"].map((cell) => paint("dim", cell));
  const rows = nodes.map((node) => [
    node.name,
    paintStatus(paint, node.status),
    node.fits ? paint("green", "yes") : paint("red", "no"),
    node.score === null ? "-" : String(node.score.total),
    node.fits ? goodText(node) : node.problems.map(problemText).join("; "),
  ]);
  return lastBelow([header, ...rows], screen, [3]);
}

/** A table whose last column is long: where the terminal is too narrow for it, that one is told below each row. */
function lastBelow(
  rows: readonly (readonly string[])[],
  { columns }: Screen,
  alignRight: readonly number[] = [],
): string {
  const whole = table(rows, alignRight);
  if (columns === null || Math.max(...whole.split("\n").map(displayWidth)) <= columns) return whole;
  const lines = table(
    rows.map((row) => row.slice(0, -1)),
    alignRight,
  ).split("\n");
  return rows
    .flatMap((row, at) => {
      const last = row.at(-1) ?? "-";
      const told = at === 0 || last === "-" ? [] : wrapText(last, columns - 4).map((text) => `    ${text}`);
      return [lines[at] ?? "", ...told];
    })
    .join("\n");
}

function goodText({ replicas, score, zone }: ExplainedNode): string {
  const parts = score === null ? [] : [`fit ${score.fit}`];
  if (score !== null && score.image !== 0) parts.push(`has the image ${signed(score.image)}`);
  if (score !== null && score.zone !== 0 && zone !== null) parts.push(`others in its zone ${signed(score.zone)}`);
  if (score !== null && score.failures !== 0) parts.push(`failed there again and again ${signed(score.failures)}`);
  if (replicas > 0) parts.push(`has ${replicas} already: only if no other takes it`);
  return parts.join(", ");
}

const signed = (part: number): string => (part > 0 ? `+${part}` : String(part));

const problemText = ({ reason, wanted, found }: ExplainedNode["problems"][number]): string => {
  if (wanted === null && found !== null) return `${reason} (${found})`;
  const numbers = [
    wanted === null ? null : `wants ${wanted}`,
    found === null ? null : `has ${found === "" ? "none" : found}`,
  ].filter((part) => part !== null);
  return numbers.length === 0 ? reason : `${reason} (${numbers.join(", ")})`;
};
