import { type NodeListItem, nodeListReply } from "@svc/proto";
import type { Api } from "./api.ts";
import { CliError } from "./errors.ts";
import { formatAge } from "./format.ts";

/**
 * The machine with that exact id, else the only one of that name. One that was removed is meant by its name only when
 * no other has it. CLI_INVALID_USAGE when the name fits several.
 */
export function pickNode<N extends { id: string; name: string; status: string }>(
  nodes: readonly N[],
  named: string,
): N {
  const byId = nodes.find(({ id }) => id === named);
  if (byId !== undefined) return byId;
  const namesakes = nodes.filter(({ name }) => name === named);
  const living = namesakes.filter(({ status }) => status !== "removed");
  const [first, ...others] = living.length > 0 ? living : namesakes;
  if (first === undefined)
    throw new CliError("CLOUD_NOT_FOUND", `There is no machine "${named}"`, {
      hint: "See them with `svc admin nodes list`",
    });
  if (others.length === 0) return first;
  const ids = [first, ...others].map(({ id }) => id).join(", ");
  throw new CliError("CLI_INVALID_USAGE", `Several machines are called "${named}"`, {
    hint: `Use one of the ids: ${ids}`,
  });
}

/** When it was heard last. */
export const seenText = ({ link, lastSeenAt }: Pick<NodeListItem, "link" | "lastSeenAt">, now: Date): string =>
  link.state === "connected" || link.state === "reconciling" ? "now" : formatAge(lastSeenAt, now);

/** The machine of the fleet that is meant. */
export async function findNode(api: Api, named: string): Promise<NodeListItem> {
  const { nodes } = await api.get("/admin/nodes", nodeListReply);
  return pickNode(nodes, named);
}
