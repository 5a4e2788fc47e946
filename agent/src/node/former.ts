import { join } from "node:path";
import { readIfThere, writeDurably } from "@svc/runtime/durable-file";

/** A machine is fenced now and then; what it was long before has no volumes left. */
const formerMax = 20;

const fileOf = (dir: string): string => join(dir, "former-nodes");

/** Ids of the nodes that this machine was before, the oldest first: what they left on its disks is still theirs by its labels. */
export async function listFormer(dir: string): Promise<string[]> {
  const text = (await readIfThere(fileOf(dir))) ?? "";
  return text.split("\n").filter((line) => line !== "");
}

/** Notes that this machine is not that node any more, before it forgets that it was. May be said twice. */
export async function rememberFormer(dir: string, nodeId: string): Promise<void> {
  const others = (await listFormer(dir)).filter((id) => id !== nodeId);
  await writeDurably(fileOf(dir), `${[...others, nodeId].slice(-formerMax).join("\n")}\n`);
}
