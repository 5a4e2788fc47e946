import type { Server } from "node:http";
import { connect } from "node:net";
import { createWebSocketStream, WebSocketServer } from "ws";

/** How a stand-in for the platform carries connections to a database server. */
export interface TunnelEnd {
  /** The Unix socket of the server. */
  socketPath: string;
  /** Where a connection has carried this, the way to the server breaks. */
  breaksAt?: string;
}

/** Answers upgrades as the platform does: binary messages both ways, 1000 at the end, 1011 with a reason on failure. */
export function serveTunnels(
  server: Server,
  { socketPath, breaksAt }: TunnelEnd,
  onSeen: (path: string, key: string) => void,
): void {
  const sockets = new WebSocketServer({ noServer: true, maxPayload: 64 * 1024, handleProtocols: () => "svc-database" });
  server.on("upgrade", (request, raw, head) => {
    onSeen(request.url ?? "", String(request.headers["x-api-key"]));
    sockets.handleUpgrade(request, raw, head, (socket) => {
      const database = connect(socketPath);
      const stream = createWebSocketStream(socket, { allowHalfOpen: true });
      database.on("error", ({ message }) => socket.close(1011, message));
      database.on("close", () => socket.close(1000));
      stream.on("error", () => database.destroy());
      stream.on("end", () => database.end());
      stream.on("data", (bytes: Buffer) => {
        if (breaksAt !== undefined && bytes.includes(breaksAt)) database.destroy(new Error("the server is gone"));
      });
      stream.pipe(database, { end: false });
      database.on("data", (bytes) => {
        socket.send(bytes);
      });
    });
  });
}
