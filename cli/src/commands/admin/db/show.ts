import { type AdminDatabaseDetail, adminDatabaseReply } from "@svc/proto";
import { branchArguments, branchName, findDatabase } from "../../../admin-databases/branches.ts";
import { blockedText } from "../../../admin-databases/watch.ts";
import { command, type Screen } from "../../../command.ts";
import { formatAge, formatBytes } from "../../../format.ts";
import { paintStatus } from "../../../paint.ts";

export const adminDbShow = command({
  name: "admin db show",
  summary: "All that is known of a database: its server, volumes, copies, proofs, and what was done with it",
  arguments: branchArguments,
  examples: ["svc admin db show shop/production"],
  async run(context, { branch: named }) {
    const api = await context.api();
    const { id } = await findDatabase(api, named);
    const { database } = await api.get(`/admin/databases/${id}`, adminDatabaseReply);
    return { database };
  },
  render: ({ database }, screen) => {
    const { paint, now } = screen;
    const age = (at: string | null) => formatAge(at, now);
    const at = (node: AdminDatabaseDetail["node"]) => node?.name ?? "no machine";
    const bytes = (size: number | null) => (size === null ? "" : `, ${formatBytes(size)}`);
    const { server } = database;
    return [
      `${paint("bold", branchName(database))} (${database.engine}) is ${paintStatus(paint, database.status)} on ${at(database.node)}${bytes(database.sizeBytes)}`,
      `  ${paint("dim", database.id)}`,
      ...(database.reason === null ? [] : [`  ${database.reason}`]),
      server === null
        ? "  It has no server at present."
        : `  Server ${server.epoch} on ${at(server.node)}, ${server.serving ? "serving" : "not serving"}, made ${age(server.createdAt)}: ${server.image}`,
      ...section(
        screen,
        "Volumes",
        database.volumes.map(
          ({ generation, node, state, purgeAt, goneAt }) =>
            `${generation} on ${at(node)}: ${state}${goneAt !== null ? ", gone" : purgeAt === null ? "" : `, kept until ${purgeAt}`}`,
        ),
      ),
      ...section(
        screen,
        "Copies",
        database.copies.map(
          (copy) =>
            `${copy.id} on ${at(copy.node)}: ${copy.state}${bytes(copy.bytes)}, ${copy.from === null || copy.coveredAt === null ? "nothing whole yet" : `from ${copy.from} to ${copy.coveredAt}`}${copy.problem === null ? "" : `; ${copy.problem}`}`,
        ),
      ),
      ...section(
        screen,
        "Changes",
        database.changes.map((change) =>
          [
            `${change.kind} ${change.state}, begun ${age(change.createdAt)}`,
            change.from && change.to ? `from ${change.from.name} to ${change.to.name}` : "",
            change.until === null ? "" : `to ${change.until}`,
            blockedText(change),
            change.problem ?? "",
          ]
            .filter((part) => part !== "")
            .join("; "),
        ),
      ),
      ...section(
        screen,
        "Proofs of restore",
        database.proofs.map(
          ({ verdict, createdAt, coveredAt, problem }) =>
            `${verdict} ${age(createdAt)}${coveredAt === null ? "" : `, all until ${coveredAt}`}${problem === null ? "" : `; ${problem}`}`,
        ),
      ),
    ].join("\n");
  },
});

const section = ({ paint }: Screen, title: string, lines: readonly string[]): string[] =>
  lines.length === 0 ? [] : ["", paint("dim", title.toUpperCase()), ...lines.map((line) => `  ${line}`)];
