import { endpointFor } from "../../../http/endpoint.ts";
import type { TenantContext } from "../../context.ts";
import type { FindReadyBranch, SizeRecord } from "../ready-branch.ts";
import type { OpenLine } from "../sql/line.ts";
import type { SqlRunner } from "../sql/runner.ts";

/** What endpoints that ask a branch's server are given. */
export interface StudioContext extends TenantContext {
  studio: SizeRecord & { findReadyBranch: FindReadyBranch; openLine: OpenLine; sql: SqlRunner };
}

/** See `endpointFor`. */
export const studioEndpoint = endpointFor<StudioContext>();
