import {
  bootstrapTokenParams,
  bootstrapTokensReply,
  createBootstrapTokenInput,
  createBootstrapTokenReply,
  deleteBootstrapTokenReply,
  idParams,
  nodeListReply,
  nodeReply,
} from "@svc/proto";
import { recordAudit } from "../../http/audit.ts";
import { ApiError } from "../../http/errors.ts";
import { endpoint } from "../endpoint.ts";
import { nodeActionEndpoints } from "./actions/endpoints.ts";
import { nodeAddressEndpoints } from "./addresses/endpoints.ts";
import { requireMachineAddresses } from "./addresses/require.ts";
import { nodeLabelEndpoints } from "./labels/endpoints.ts";
import { listBootstrapTokens } from "./token-listing.ts";
import { createBootstrapToken, revokeBootstrapToken } from "./tokens.ts";
import { findNode, listNodes } from "./view.ts";

const nodes = endpoint({
  method: "GET",
  path: "/admin/nodes",
  access: "admin",
  summary: "The fleet: every machine that joined, and how it is.",
  reply: nodeListReply,
  async handle({ db, fleet }) {
    return { nodes: await listNodes(db, fleet) };
  },
});

const node = endpoint({
  method: "GET",
  path: "/admin/nodes/:id",
  access: "admin",
  summary: "One machine of the fleet.",
  params: idParams,
  reply: nodeReply,
  async handle({ db, fleet, clock, config: { schedulerEnabled } }, { params }) {
    const found = await findNode(db, fleet, params.id, { now: clock.now(), schedulerEnabled });
    if (found === null) throw new ApiError("NOT_FOUND");
    return { node: found };
  },
});

const tokens = endpoint({
  method: "GET",
  path: "/admin/nodes/bootstrap-tokens",
  access: "admin",
  summary: "Bootstrap tokens, newest first, and what joined with them. What a token is was shown once.",
  reply: bootstrapTokensReply,
  async handle({ db, clock }) {
    return { bootstrapTokens: await listBootstrapTokens(db, clock.now()) };
  },
});

const createToken = endpoint({
  method: "POST",
  path: "/admin/nodes/bootstrap-tokens",
  access: "admin",
  summary: "Create a token that lets one machine join. The token is in this reply and nowhere else.",
  // No body at all asks for the defaults.
  body: createBootstrapTokenInput.prefault({}),
  status: 201,
  reply: createBootstrapTokenReply,
  errors: ["IDEMPOTENCY_CONFLICT"],
  handle({ clock, cluster, createOnce }, { caller, body, address, idempotencyKey }) {
    const { role, expiresIn, addresses } = body;
    if (addresses !== undefined && role === "edge")
      throw new ApiError("VALIDATION", {
        message: "addresses: Only nodes are bound to addresses, and this is for an edge.",
      });
    requireMachineAddresses(addresses ?? []);
    const attempt = {
      caller,
      idempotencyKey,
      request: ["POST /admin/nodes/bootstrap-tokens", body],
      status: 201,
      shownOnce: ({ bootstrapToken }: { bootstrapToken: { id: string } }) => bootstrapToken.id,
    };
    return createOnce(attempt, async (tx) => {
      const { id, token, expiresAt } = await createBootstrapToken(tx, {
        ...{ role, ttlSeconds: expiresIn, ...(addresses !== undefined && { addresses }) },
        createdBy: caller.userId,
        clusterId: cluster.clusterId,
        caSha256: cluster.caSha256,
        now: clock.now(),
      });
      await recordAudit(tx, {
        caller,
        address,
        action: "bootstrap-token.create",
        target: id,
        detail: { role, ...(addresses !== undefined && { addresses }) },
      });
      return { bootstrapToken: { id, token, expiresAt: expiresAt.toISOString() } };
    });
  },
});

const revokeToken = endpoint({
  method: "DELETE",
  path: "/admin/nodes/bootstrap-tokens/:id",
  access: "admin",
  summary: "Revoke a bootstrap token. A machine that joined with it stays.",
  params: bootstrapTokenParams,
  reply: deleteBootstrapTokenReply,
  handle: ({ db, clock }, { caller, params, address }) =>
    db.transaction().execute(async (tx) => {
      const revoked = await revokeBootstrapToken(tx, params.id, clock.now());
      if (revoked === null) throw new ApiError("NOT_FOUND");
      await recordAudit(tx, { caller, address, action: "bootstrap-token.revoke", target: params.id });
      return { id: params.id, node: revoked.node };
    }),
});

export const nodeEndpoints = [
  ...[nodes, node],
  ...nodeLabelEndpoints,
  ...nodeAddressEndpoints,
  ...[tokens, createToken, revokeToken],
  ...nodeActionEndpoints,
];
