import { addressNodeInput, addressNodeReply } from "@svc/proto";
import { argument, command } from "../../../command.ts";
import { CliError } from "../../../errors.ts";
import { nodeArguments } from "../../../node-action.ts";
import { findNode } from "../../../nodes.ts";

/** Addresses as the API takes them. CLI_INVALID_USAGE for what is none. */
export function readAddresses(words: readonly string[]): string[] {
  const parsed = addressNodeInput.safeParse({ addresses: words });
  if (parsed.success) return parsed.data.addresses;
  const [issue] = parsed.error.issues;
  const word = words[Number(issue?.path[1])];
  const what = word === undefined ? "Those addresses cannot be set" : `"${word}" is not an address`;
  throw new CliError("CLI_INVALID_USAGE", `${what}: ${issue?.message ?? "it is not valid"}`, {
    hint: "Name IPv4 addresses such as 10.0.0.7",
  });
}

export const adminNodesReaddress = command({
  name: "admin nodes readdress",
  summary: "Say at which addresses edges may reach a node",
  details:
    "Its SVC_AGENT_ADDRESS has to be one of them, from the agent's next connection on. They take the place of the address that the node joined from, or of what was said before.",
  arguments: {
    ...nodeArguments,
    addresses: argument.many("address", "A private address of the machine"),
  },
  examples: ["svc admin nodes readdress node-1 10.0.0.7"],
  async run(context, { node: named, addresses: words }) {
    const addresses = readAddresses(words);
    const api = await context.api();
    const { id } = await findNode(api, named);
    const { node } = await api.put(`/admin/nodes/${id}/addresses`, addressNodeReply, { body: { addresses } });
    return { node: { id: node.id, name: node.name, addresses } };
  },
  render: ({ node }, { paint }) =>
    `${paint("green", "✓")} ${node.name} may be reached at ${node.addresses.join(", ")}, from its agent's next connection on`,
});
