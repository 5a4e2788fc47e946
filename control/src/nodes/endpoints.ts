import {
  bootstrapTokenParams,
  createBootstrapTokenInput,
  createBootstrapTokenReply,
  deleteBootstrapTokenReply,
  idParams,
  type NodeDetail,
  type NodeListItem,
  nodeListReply,
  nodeReply,
} from "@svc/proto";
import type { Node } from "../db/tables.ts";
import { recordAudit } from "../http/audit.ts";
import { endpoint } from "../http/endpoint.ts";
import { ApiError } from "../http/errors.ts";
import { createOnce } from "../http/idempotency.ts";
import { findNodeRow } from "./store.ts";
import { createBootstrapToken, revokeBootstrapToken } from "./tokens.ts";
import { findNode, listNodes, type NodeView } from "./view.ts";

const iso = (at: Date | null) => at?.toISOString() ?? null;

const nodeItem = (node: NodeView): NodeListItem => ({
  id: node.id,
  name: node.name,
  role: node.role,
  status: node.status,
  lastSeenAt: iso(node.lastSeenAt),
  version: node.version,
  // Edges take no work.
  capacity: node.role === "edge" ? null : node.capacity,
  allocated: node.role === "edge" ? null : node.allocated,
  runningPlacements: node.runningPlacements,
  labels: node.labels,
});

const nodeDetailView = (node: NodeView, row: Pick<Node, "schedulable" | "certificate_expires_at">): NodeDetail => ({
  ...nodeItem(node),
  platform: node.platform,
  schedulable: row.schedulable,
  reason: null,
  createdAt: node.createdAt.toISOString(),
  certificateExpiresAt: iso(row.certificate_expires_at),
  // None is offered yet.
  actions: [],
});

const nodes = endpoint({
  method: "GET",
  path: "/admin/nodes",
  access: "admin",
  summary: "The fleet: every machine that joined, and how it is.",
  reply: nodeListReply,
  async handle({ db, fleet }) {
    return { nodes: (await listNodes(db, fleet)).map(nodeItem) };
  },
});

const node = endpoint({
  method: "GET",
  path: "/admin/nodes/:id",
  access: "admin",
  summary: "One machine of the fleet.",
  params: idParams,
  reply: nodeReply,
  async handle({ db, fleet }, { params }) {
    const [found, row] = await Promise.all([findNode(db, fleet, params.id), findNodeRow(db, params.id)]);
    if (found === null || row === null) throw new ApiError("NOT_FOUND");
    return { node: nodeDetailView(found, row) };
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
  handle({ db, now, cluster }, { caller, body, address, idempotencyKey }) {
    const attempt = {
      caller,
      idempotencyKey,
      request: ["POST /admin/nodes/bootstrap-tokens", body],
      status: 201,
      shownOnce: ({ bootstrapToken }: { bootstrapToken: { id: string } }) => bootstrapToken.id,
    };
    return createOnce(db, attempt, async (tx) => {
      const { id, token, expiresAt } = await createBootstrapToken(tx, {
        role: body.role,
        ttlSeconds: body.expiresIn,
        createdBy: caller.userId,
        clusterId: cluster.clusterId,
        caSha256: cluster.caSha256,
        now: now(),
      });
      await recordAudit(tx, {
        caller,
        address,
        action: "bootstrap-token.create",
        target: id,
        detail: { role: body.role },
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
  handle: ({ db, now }, { caller, params, address }) =>
    db.transaction().execute(async (tx) => {
      if (!(await revokeBootstrapToken(tx, params.id, now()))) throw new ApiError("NOT_FOUND");
      await recordAudit(tx, { caller, address, action: "bootstrap-token.revoke", target: params.id });
      return { id: params.id };
    }),
});

export const nodeEndpoints = [nodes, node, createToken, revokeToken];
