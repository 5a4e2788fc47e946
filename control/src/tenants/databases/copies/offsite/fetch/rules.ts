// @pure
import type { Refusal } from "../../../rules.ts";

export interface FetchNode {
  name: string;
  takesWork: boolean;
  /** It has less free than a machine keeps free. */
  isFull: boolean;
  /** Of its whole disk, in MiB; 0: not known. */
  diskMb: number;
}

export interface FetchFacts {
  /** A setting names a bucket. */
  hasBucket: boolean;
  /** Something that is off-site of the branch covers a moment. */
  isThere: boolean;
  /** The machine that is to have it; null: there is none of that id. */
  node: FetchNode | null;
  /** What is off-site of the copy, in MiB. */
  sizeMb: number;
  /** One is on its way already. */
  isFetching: boolean;
}

const refuse = (message: string): Refusal => ({ code: "CONFLICT", message });

/** Why nothing is fetched; null: it is. */
export function fetchRefusal({ hasBucket, isThere, node, isFetching, sizeMb }: FetchFacts): Refusal | null {
  if (!hasBucket) return refuse("No bucket is set: SVC_S3_ENDPOINT and its like name none.");
  if (!isThere) return refuse("There is no copy of this database off-site.");
  if (isFetching) return refuse("A copy of this database is being fetched already.");
  if (node === null) return refuse("There is no such machine.");
  if (!node.takesWork) return refuse(`${node.name} takes no new work. Name another machine.`);
  if (node.isFull) return refuse(noRoom(node.name));
  if (node.diskMb !== 0 && node.diskMb < sizeMb)
    return refuse(
      `The copy has ${sizeMb} MiB, and the whole disk of ${node.name} ${node.diskMb} MiB. Name a machine with a larger one.`,
    );
  return null;
}

export const noRoom = (nodeName: string): string =>
  `The disk of ${nodeName} has too little free space for a copy. Make room there, or name another machine.`;
