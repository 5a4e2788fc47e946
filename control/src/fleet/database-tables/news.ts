/** Topic on which the database itself announces a branch whose way changed, from the transaction on that changes it. */
export const branchTopic = "svc_branches";

/** What changed, as far as it is said. */
export interface BranchNews {
  databaseId: string;
  projectId: string;
  /** Whose disk has its data, or whose engine its server; null: neither. */
  nodeId: string | null;
}

/** What a notification tells; null: anything may have changed. */
export function readBranchNews(payload: string): BranchNews | null {
  const [databaseId, projectId, nodeId = null] = payload.split(" ");
  return databaseId && projectId ? { databaseId, projectId, nodeId } : null;
}
