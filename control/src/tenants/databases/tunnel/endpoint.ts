import { databaseQuery, databaseTunnelReply, idParams, limits } from "@svc/proto";
import { TunnelUnavailable } from "../../../fleet/tunnels/tunnels.ts";
import { recordAudit } from "../../../http/audit.ts";
import { NotUpgraded } from "../../../http/upgrades.ts";
import { Refused } from "../../../stores/refused.ts";
import { endpoint } from "../../endpoint.ts";
import { branchErrors, getReadyBranch } from "../endpoints/access.ts";
import { getServer } from "../find-ready.ts";
import { splice } from "./splice.ts";

const openMs = 10_000;
/** Longer than any statement that somebody still waits for. */
const idleMs = 6 * 3_600_000;

/** A node that has as many tunnels as it takes is no server that is away. */
const notOpened = (cause: unknown): Refused =>
  cause instanceof TunnelUnavailable && cause.why === "busy"
    ? new Refused("RATE_LIMITED", cause.message, { cause })
    : new Refused("DATABASE_NOT_READY", "The database does not answer at the moment. Try again shortly.", { cause });

/**
 * A way to the server of a branch for tools on somebody's own machine, one connection of theirs each. They log in by themselves:
 * what passes is between them and the server.
 */
export const tunnel = endpoint({
  method: "GET",
  path: "/projects/:id/database/tunnel",
  access: { scope: "database:credentials" },
  summary:
    "Bytes to and from a channel's database, as binary messages of a WebSocket of the protocol svc-database; each is one connection.",
  params: idParams,
  query: databaseQuery,
  upgrades: true,
  reply: databaseTunnelReply,
  errors: [...branchErrors, "BAD_REQUEST", "FORBIDDEN", "RATE_LIMITED"],
  async handle(
    { db, clock, log, studio, upgrades, takeTunnelPlace },
    { caller, params, query, address, request, reply },
  ) {
    const { channel } = query;
    const { project, branch } = await getReadyBranch(db, caller, { id: params.id, channel });
    upgrades.require(request.raw);
    const server = await getServer(db, branch.id);
    using stack = new DisposableStack();
    const place = takeTunnelPlace(project.owner_id);
    if (place === null) throw new Refused("RATE_LIMITED", "Too many tools use databases from outside now. Close some.");
    stack.use(place);
    const line = await studio.openLine(server, clock.abortAfter(openMs)).catch((cause: unknown) => {
      throw notOpened(cause);
    });
    line.on("error", () => {});
    stack.defer(() => line.destroy());
    const detail = { channel, engine: branch.engine, databaseId: branch.id };
    await recordAudit(db, { caller, address, action: "database.tunnel", target: params.id, detail });
    reply.hijack();
    const { messageBytesMax, protocol } = limits.databaseTunnel;
    try {
      const webSocket = await upgrades.accept(request.raw, { protocol, messageBytesMax });
      const held = stack.move();
      void splice(webSocket, line, { clock, messageBytesMax, idleMs }).then(({ why, bytesIn, bytesOut }) => {
        held.dispose();
        log.info({ databaseId: branch.id, projectId: params.id, why, bytesIn, bytesOut }, "database tunnel ended");
      });
    } catch (error) {
      if (!(error instanceof NotUpgraded)) throw error;
      log.info({ err: error, projectId: params.id }, "a database tunnel was not opened");
    }
    return {};
  },
});
