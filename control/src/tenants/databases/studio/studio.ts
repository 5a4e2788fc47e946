import type { FindReadyBranch, SizeRecord } from "../ready-branch.ts";
import type { OpenLine } from "../sql/line.ts";
import type { SqlRunner } from "../sql/runner.ts";
import type { Transfers } from "../sql/transfers.ts";

/** What endpoints that ask a branch's server are given. */
export interface Studio extends SizeRecord {
  findReadyBranch: FindReadyBranch;
  openLine: OpenLine;
  sql: Pick<SqlRunner, "ask">;
  transfers: Transfers;
}
