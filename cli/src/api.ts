import { errorReply, versionHeader } from "@svc/proto";
import type { Clock } from "@svc/runtime/clock";
import { CliError, fromServerError, type ServerError } from "./errors.ts";
import type { Http, HttpRequest, HttpResponse, StreamBody } from "./http.ts";
import { parseJson } from "./json.ts";

/** What a reply must look like; a zod schema of `@svc/proto` is one. */
export interface Schema<T> {
  safeParse(value: unknown): { success: true; data: T } | { success: false };
}

export interface CallOptions {
  /** JSON body, or a prepared one with its content type. */
  body?: object | { type: string; content: StreamBody };
  /** Milliseconds for the whole call; default 30 s. */
  timeoutMs?: number;
  headers?: Readonly<Record<string, string>>;
  /** How an error answer is told; default: the mapping table. */
  failure?: (error: ServerError) => CliError;
}

/** The HTTP API as one caller sees it. Every failure is a CliError. */
export interface Api {
  readonly apiUrl: string;
  /** `path` is below /api/v1. */
  get<T>(path: string, reply: Schema<T>, options?: CallOptions): Promise<T>;
  post<T>(path: string, reply: Schema<T>, options?: CallOptions): Promise<T>;
  put<T>(path: string, reply: Schema<T>, options?: CallOptions): Promise<T>;
  patch<T>(path: string, reply: Schema<T>, options?: CallOptions): Promise<T>;
  delete<T>(path: string, reply: Schema<T>, options?: CallOptions): Promise<T>;
  /** What is at `path` as bytes, which `take` reads. `sizeBytes` is how many the answer says that they are; null when it does not. */
  download<T>(
    path: string,
    take: (bytes: { chunks: AsyncIterable<Buffer>; sizeBytes: number | null }) => Promise<T>,
    options?: Pick<CallOptions, "failure">,
  ): Promise<T>;
  /** Where a WebSocket of the API is, and what says there who calls. */
  socketAt(path: string): { url: string; headers: Readonly<Record<string, string>> };
}

const callMs = 30_000;
const replyBytesMax = 32 * 1024 * 1024;
const downloadMs = 6 * 3600_000;
const downloadBytesMax = 2 ** 40;

export interface ApiOptions {
  clock: Clock;
  http: Http;
  apiUrl: string;
  /** Says who calls: `x-api-key` or `authorization`. */
  headers: Readonly<Record<string, string>>;
  userAgent: string;
  signal: AbortSignal;
  /** Told about each call, without anything secret. */
  trace(line: string): void;
  /** How the refusal of the key itself is told, by who knows where it came from. */
  refused?(error: CliError): CliError;
  /** Told before each call that may change something. */
  onChange?(): void;
  /** Told which version the platform says that it is. */
  onVersion?(version: string): void;
}

export function createApi(options: ApiOptions): Api {
  const call = async <T>(
    method: HttpRequest["method"],
    path: string,
    reply: Schema<T>,
    { body, timeoutMs = callMs, headers = {}, failure = fromServerError }: CallOptions = {},
  ): Promise<T> => {
    const content = bodyOf(body);
    const startedAtMs = options.clock.steadyMs();
    if (method !== "GET") options.onChange?.();
    const response = await options.http.send({
      method,
      url: `${options.apiUrl}/api/v1${path}`,
      headers: {
        accept: "application/json",
        "user-agent": options.userAgent,
        ...options.headers,
        ...content.headers,
        ...headers,
      },
      ...(content.body === undefined ? {} : { body: content.body }),
      timeoutMs,
      maxBytes: replyBytesMax,
      signal: options.signal,
    });
    const tookMs = Math.round(options.clock.steadyMs() - startedAtMs);
    options.trace(`${method} ${path} ${response.status} in ${tookMs} ms`);
    const version = response.header(versionHeader);
    if (version !== null) options.onVersion?.(version);
    const value = parseJson(response.body);
    if (response.status < 200 || response.status > 299) {
      const error = failure(serverError(options.apiUrl, response, value));
      throw response.status === 401 && options.refused !== undefined ? options.refused(error) : error;
    }
    const result = reply.safeParse(value);
    if (result.success) return result.data;
    throw notUnderstood(options.apiUrl, value);
  };
  const headers = { "user-agent": options.userAgent, ...options.headers };
  const download: Api["download"] = (path, take, { failure = fromServerError } = {}) =>
    options.http.download(
      {
        method: "GET",
        url: `${options.apiUrl}/api/v1${path}`,
        headers,
        timeoutMs: downloadMs,
        maxBytes: downloadBytesMax,
        signal: options.signal,
      },
      async ({ status, header, chunks }) => {
        options.trace(`GET ${path} ${status}`);
        const length = header("content-length");
        if (status === 200) return take({ chunks, sizeBytes: length === null ? null : Number(length) });
        const body = await readText(chunks);
        throw failure(serverError(options.apiUrl, { status, header, body }, parseJson(body)));
      },
    );
  return {
    apiUrl: options.apiUrl,
    download,
    socketAt: (path) => ({ url: `${options.apiUrl.replace(/^http/, "ws")}/api/v1${path}`, headers }),
    get: (path, reply, rest) => call("GET", path, reply, rest),
    post: (path, reply, rest) => call("POST", path, reply, rest),
    put: (path, reply, rest) => call("PUT", path, reply, rest),
    patch: (path, reply, rest) => call("PATCH", path, reply, rest),
    delete: (path, reply, rest) => call("DELETE", path, reply, rest),
  };
}

/** The beginning of an answer that is no success, as text. */
async function readText(chunks: AsyncIterable<Buffer>): Promise<string> {
  const kept: Buffer[] = [];
  let sizeBytes = 0;
  for await (const chunk of chunks) {
    sizeBytes += chunk.length;
    if (sizeBytes > replyBytesMax) break;
    kept.push(chunk);
  }
  return Buffer.concat(kept).toString("utf8");
}

function bodyOf(body: CallOptions["body"]): { headers: Record<string, string>; body?: string | StreamBody } {
  if (body === undefined) return { headers: {} };
  if (isPrepared(body)) return { headers: { "content-type": body.type }, body: body.content };
  return { headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
}

const isPrepared = (body: object): body is { type: string; content: StreamBody } =>
  "content" in body && typeof body.content === "object" && body.content !== null && "stream" in body.content;

/** What an answer that is no success says. A body that is not svc's (a proxy's page, say) gives no code. */
export function serverError(apiUrl: string, response: HttpResponse, value: unknown): ServerError {
  const { status } = response;
  const seconds = Number(response.header("retry-after") ?? Number.NaN);
  const retryAfterSeconds = Number.isInteger(seconds) && seconds >= 0 ? seconds : null;
  const parsed = errorReply.safeParse(value);
  if (parsed.success) {
    const { code, message } = parsed.data.error;
    return { status, code, message, retryAfterSeconds };
  }
  const elsewhere = status >= 300 && status < 400 ? URL.parse(response.header("location") ?? "", apiUrl) : null;
  const message =
    elsewhere === null
      ? `${apiUrl} answered with HTTP status ${status}`
      : `${apiUrl} redirects to ${elsewhere.origin}; log in there with \`svc login --api-url ${elsewhere.origin}\``;
  return { status, code: null, message, retryAfterSeconds };
}

/** For a success whose body is not what this version knows. */
function notUnderstood(apiUrl: string, value: unknown): CliError {
  if (typeof value !== "object" || value === null || !("ok" in value))
    return new CliError("CLOUD_UNAVAILABLE", `What answers at ${apiUrl} is not the svc API`, {
      hint: "Log in to the right address: `svc login --api-url <url>`",
    });
  return new CliError("UNEXPECTED", `${apiUrl} answered in a way that this version of svc does not understand`, {
    hint: "Update the command line: get it again where you got this one",
  });
}
