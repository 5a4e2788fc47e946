// @pure
import type { Refusal } from "../../../rules.ts";

export interface FetchFacts {
  /** A setting names a bucket. */
  hasBucket: boolean;
  /** Something that is off-site of the branch covers a moment. */
  isThere: boolean;
  /** The machine that is to have it; null: there is none of that id. */
  node: { name: string; takesWork: boolean } | null;
  /** One is on its way already. */
  isFetching: boolean;
}

const refuse = (message: string): Refusal => ({ code: "CONFLICT", message });

/** Why nothing is fetched; null: it is. */
export function fetchRefusal({ hasBucket, isThere, node, isFetching }: FetchFacts): Refusal | null {
  if (!hasBucket) return refuse("No bucket is set: SVC_S3_ENDPOINT and its like name none.");
  if (!isThere) return refuse("There is no copy of this database off-site.");
  if (isFetching) return refuse("A copy of this database is being fetched already.");
  if (node === null) return refuse("There is no such machine.");
  return node.takesWork ? null : refuse(`${node.name} takes no new work, or its disk is full.`);
}
