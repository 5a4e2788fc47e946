import { type ClientRequest, type IncomingHttpHeaders, type RequestOptions, request } from "node:http";
import { request as requestTls } from "node:https";
import { connect } from "node:net";

export interface Answer {
  status: number;
  headers: IncomingHttpHeaders;
  body: string;
}

interface AskOptions {
  method?: string;
  headers?: Record<string, string>;
  body?: string | Buffer;
}

/** One request to the edge at `address` for `host`, on a connection of its own. */
export const ask = (address: string, host: string, path = "/", options: AskOptions = {}): Promise<Answer> =>
  askBy(request, address, host, path, options);

/** The same over TLS, whoever vouches for the certificate. @param options.servername of the connection, if not `host` */
export const askTls = (
  address: string,
  host: string,
  path = "/",
  { servername = host, ...options }: AskOptions & { servername?: string } = {},
): Promise<Answer> =>
  askBy((about) => requestTls({ ...about, servername, rejectUnauthorized: false }), address, host, path, options);

function askBy(
  by: (about: RequestOptions) => ClientRequest,
  address: string,
  host: string,
  path: string,
  options: AskOptions,
): Promise<Answer> {
  const [hostname, port] = address.split(":");
  const length = options.body === undefined ? {} : { "content-length": String(Buffer.byteLength(options.body)) };
  return new Promise((resolve, reject) => {
    const sent = by({
      hostname,
      port,
      path,
      method: options.method ?? "GET",
      agent: false,
      signal: AbortSignal.timeout(20_000),
      headers: { ...length, ...options.headers, host },
    });
    sent.once("error", reject);
    sent.once("response", (answer) => {
      const chunks: Buffer[] = [];
      answer.on("data", (chunk: Buffer) => chunks.push(chunk));
      answer.once("error", reject);
      answer.once("end", () =>
        resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body: Buffer.concat(chunks).toString() }),
      );
    });
    sent.end(options.body);
  });
}

/** Sends bytes as they are, asking to close, and returns everything that comes back until the other side does. */
export function askRaw(address: string, bytes: string): Promise<string> {
  const [host, port] = address.split(":");
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port: Number(port) });
    const chunks: Buffer[] = [];
    socket.setTimeout(10_000, () => socket.destroy(new Error("no answer in time")));
    socket.on("data", (chunk) => chunks.push(chunk));
    socket.once("error", reject);
    socket.once("close", () => resolve(Buffer.concat(chunks).toString("latin1")));
    // Not ended: a visitor who hangs up is not answered.
    socket.write(bytes, "latin1");
  });
}
