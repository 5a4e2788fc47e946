import http2 from "node:http2";
import { syncBuiltinESMExports } from "node:module";
import { Code, ConnectError, type Transport } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import type { Clock } from "@svc/runtime/clock";
import type { Endpoints } from "./endpoints.ts";
import type { Identity } from "./identity.ts";

/** DNS name in every server certificate of control, whatever address it is reached at. */
export const controlName = "control.svc.internal";

/** Messages above this are refused on both ends; bulk data goes through the registry. */
const readMaxBytes = 4 * 1024 * 1024;
/** A process that stands still has its connections accepted by the kernel, and never answers. */
const connectTimeoutMs = 5_000;

/*
 * connect-node stops listening to a connection that it gives up, also to one whose error is still to come, and an error
 * that nobody listens to ends the process. It opens connections itself and hands them to nobody before they carry a
 * call: so whatever opens one in this process gets it with a listener that stays.
 */
const { connect } = http2;
http2.connect = (...args: unknown[]) => {
  const session: http2.ClientHttp2Session = Reflect.apply(connect, http2, args);
  return session.on("error", () => {});
};
syncBuiltinESMExports();

/** One HTTP/2 connection to control that reopens itself. */
export interface LinkTransport {
  transport: Transport;
  /** Ends the connection and every call on it. */
  close(): void;
}

/**
 * The connection of an enrolled daemon: gRPC over mutual TLS, to the endpoint in use. Pings find a peer that is gone
 * without a word within 15 s. A call that finds its endpoint dead is made again at the next one, as often as there are
 * endpoints, because every call of a daemon may be repeated; a stream is its caller's to open again. The certificate is
 * read once: after a renewal make a new transport for new calls.
 */
export function createTransport(clock: Clock, identity: Identity, endpoints: Endpoints): LinkTransport {
  const credentials = { ca: identity.caPem, cert: identity.certificatePem, key: identity.privateKeyPem };
  const opened = new Map<string, OpenTransport>();
  let closed = false;
  const at = (url: string): OpenTransport => {
    if (closed) throw new ConnectError("the transport was closed", Code.Unavailable);
    const known = opened.get(url) ?? openTransport(clock, url, credentials);
    opened.set(url, known);
    return known;
  };
  return {
    transport: {
      async unary(method, signal, ...rest) {
        for (let tried = 1; ; tried += 1) {
          const url = endpoints.current();
          try {
            const link = at(url);
            await link.connect(signal);
            return await link.transport.unary(method, signal, ...rest);
          } catch (cause) {
            if (!isOfEndpoint(cause)) throw cause;
            endpoints.moveOn(url);
            // Out of time counts against the endpoint, but the caller has none left for another.
            const isOver = signal?.aborted === true || ConnectError.from(cause).code === Code.DeadlineExceeded;
            if (isOver || closed || tried >= endpoints.count) throw cause;
          }
        }
      },
      async stream(method, signal, ...rest) {
        const link = at(endpoints.current());
        await link.connect(signal);
        return link.transport.stream(method, signal, ...rest);
      },
    },
    close() {
      closed = true;
      for (const link of opened.values()) link.close();
    },
  };
}

/** The connection of a daemon that has no certificate yet. */
export function createEnrollTransport(clock: Clock, caPem: string, enrollUrl: string): LinkTransport {
  return openTransport(clock, enrollUrl, { ca: caPem });
}

/** Whether it was the endpoint that failed, and not control that answered. */
function isOfEndpoint(cause: unknown): boolean {
  const { code } = ConnectError.from(cause);
  // A connection that the server destroyed is reported as canceled; so is a caller's timeout on one that hangs.
  return [Code.Unavailable, Code.Canceled, Code.Aborted, Code.DeadlineExceeded].includes(code);
}

type OpenTransport = LinkTransport & {
  /** Resolves when there is a connection, or when it failed: the call then says why. Throws when it takes too long. */
  connect(signal: AbortSignal | undefined): Promise<void>;
};

function openTransport(
  clock: Clock,
  url: string,
  credentials: { ca: string; cert?: string; key?: string },
): OpenTransport {
  const sessionManager = new Http2SessionManager(
    url,
    { pingIntervalMs: 10_000, pingTimeoutMs: 5_000 },
    { ...credentials, servername: controlName, minVersion: "TLSv1.3" },
  );
  const transport = createGrpcTransport({
    baseUrl: url,
    sessionManager,
    readMaxBytes: readMaxBytes,
    // Messages are small and the link is local: compression would cost memory and time on both ends.
    acceptCompression: [],
  });
  return {
    transport,
    connect: (signal) =>
      new Promise((resolve, reject) => {
        const settle = (finish: () => void): void => {
          timer[Symbol.dispose]();
          signal?.removeEventListener("abort", onAbort);
          finish();
        };
        const onAbort = (): void => settle(resolve);
        const timer = clock.after(connectTimeoutMs, () => {
          const late = new ConnectError(`${url} did not answer within ${connectTimeoutMs} ms`, Code.Unavailable);
          sessionManager.abort(late);
          settle(() => reject(late));
        });
        signal?.addEventListener("abort", onAbort, { once: true });
        sessionManager.connect().then(() => settle(resolve), reject);
      }),
    close: () => sessionManager.abort(new ConnectError("the transport was closed", Code.Unavailable)),
  };
}
