import { type LabelNodeInput, labelNodeInput, labelNodeReply } from "@svc/proto";
import { argument, command } from "../../../command.ts";
import { CliError } from "../../../errors.ts";
import { nodeArguments } from "../../../node-action.ts";
import { findNode } from "../../../nodes.ts";

export const adminNodesLabel = command({
  name: "admin nodes label",
  summary: "Give a machine labels, or take them away; plans choose machines by these",
  details:
    "A label that is set here counts for more than one that the machine says of itself, and plans go by nothing else. What runs on the machine already stays there.",
  arguments: {
    ...nodeArguments,
    labels: argument.many("label", "`key=value` sets a label, `key-` takes it away"),
  },
  examples: ["svc admin nodes label node-1 disk=fast zone=b", "svc admin nodes label node-1 disk-"],
  async run(context, { node: named, labels: words }) {
    const labels = readLabels(words);
    const api = await context.api();
    const { id } = await findNode(api, named);
    const { node } = await api.patch(`/admin/nodes/${id}`, labelNodeReply, { body: { labels } });
    const { name, labels: all, operatorLabels } = node;
    return { node: { id: node.id, name, labels: all, operatorLabels } };
  },
  render: ({ node }, { paint }) => {
    const set = Object.entries(node.operatorLabels).map(([name, value]) => `${name}=${value}`);
    return `${paint("green", "✓")} ${node.name} has ${set.length === 0 ? "no labels" : set.join(", ")} from operators`;
  },
});

const hint = "Write `disk=fast` to set a label and `disk-` to take it away";

/** What is typed as the API takes it. CLI_INVALID_USAGE for what is neither, and for a label that is named twice. */
function readLabels(words: readonly string[]): LabelNodeInput["labels"] {
  const labels = new Map<string, string | null>();
  for (const word of words) {
    const [key, value] = readLabel(word);
    if (labels.has(key)) throw new CliError("CLI_INVALID_USAGE", `The label "${key}" is named twice`, { hint });
    labels.set(key, value);
  }
  const parsed = labelNodeInput.safeParse({ labels: Object.fromEntries(labels) });
  if (parsed.success) return parsed.data.labels;
  const [issue] = parsed.error.issues;
  const key = issue?.path[1];
  const at = key === undefined ? "That" : `The label "${String(key)}"`;
  const what = issue?.code === "invalid_key" ? issue.issues[0]?.message : issue?.message;
  throw new CliError("CLI_INVALID_USAGE", `${at} cannot be set: ${what ?? "it is not valid"}`, { hint });
}

function readLabel(word: string): [key: string, value: string | null] {
  const at = word.indexOf("=");
  if (at > 0) return [word.slice(0, at), word.slice(at + 1)];
  if (at === -1 && word.length > 1 && word.endsWith("-")) return [word.slice(0, -1), null];
  throw new CliError("CLI_INVALID_USAGE", `"${word}" neither sets a label nor takes one away`, { hint });
}
