import { type ChannelCredentials, type ChannelOptions, credentials, type ServiceError } from "@grpc/grpc-js";
import { Cluster, KV, Lease, Maintenance, Watch } from "@svc/proto/etcd";
import type { Clock } from "@svc/runtime/clock";
import type { Random } from "@svc/runtime/random";
import { backOffMs } from "@svc/runtime/retry";
import { pause } from "@svc/runtime/sleep";
import type { Log } from "../../log.ts";
import { dial, metadata, type ServiceClient } from "../grpc/adapter.ts";
import { EtcdError, type EtcdErrorCode, failureOf, UnknownOutcome } from "./errors.ts";

/** PEM texts. `ca` checks the server, `cert` and `key` are this client's. */
export interface TlsOptions {
  readonly ca?: string | Buffer;
  readonly cert?: string | Buffer;
  readonly key?: string | Buffer;
  /** The name to expect in the server's certificate; by default the endpoint's host. */
  readonly serverName?: string;
}

export interface Timings {
  /** Deadline of one attempt of a unary call. */
  readonly callTimeoutMs: number;
  /** HTTP/2 pings while a call is open. etcd refuses pings more often than every 5 s by default. */
  readonly pingIntervalMs: number;
  readonly pingTimeoutMs: number;
  /** A watch that heard nothing for this long is given up and opened again. */
  readonly watchSilenceMs: number;
}

export const defaultTimings: Timings = {
  callTimeoutMs: 3_000,
  pingIntervalMs: 10_000,
  pingTimeoutMs: 5_000,
  watchSilenceMs: 15_000,
};

/** Attempts of a read, each with its own deadline; none begins after twice that deadline. */
const readAttempts = 8;
const readBackOff = { firstMs: 100, maxMs: 1_000 };

/** The largest answer that is accepted; pages of a range are made smaller when one is over it. */
const maxReceiveBytes = 16 * 1024 * 1024;

/** Asks a member that has lost the others to say so, instead of serving what it last knew. */
export const requireLeader = metadata({ hasleader: "true" });

/** One etcd member over one HTTP/2 connection. */
export interface Member {
  readonly endpoint: string;
  readonly kv: ServiceClient<typeof KV>;
  readonly watch: ServiceClient<typeof Watch>;
  readonly lease: ServiceClient<typeof Lease>;
  /** Lets open calls end and takes no new ones. */
  close(): void;
}

/** Hears of what this client does, for whoever counts it. Must not throw. */
export interface EtcdObserver {
  /** One attempt of a call has ended; `code` is null when it got its answer. */
  called(what: string, durationMs: number, code: EtcdErrorCode | null): void;
  /** A watch has to be opened again. */
  watchEnded(): void;
}

/** Starts one attempt of a call; `deadline` and `signal` are to be passed on. */
export type Attempt<T> = (member: Member, deadline: Date, signal: AbortSignal) => Promise<T>;

/** The way to the cluster: one member at a time, the next one when it fails. */
export interface Connection {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly timings: Timings;
  /** Aborts when the client is closed. */
  readonly closed: AbortSignal;
  readonly observer: EtcdObserver | null;
  /** When each watch was last heard, on `steadyMs` of the clock, over all of its streams. */
  readonly watches: Set<{ heardAtMs: number }>;
  /** The member to use now. @throws EtcdError CLOSED. */
  member(): Member;
  /** Says that `member` failed: calls from now on go to the next one (or a fresh connection to the only one). */
  moveOn(member: Member): void;
  /** A call that may be repeated: within nine seconds by default it has an answer or an error. @throws EtcdError. */
  read<T>(what: string, attempt: Attempt<T>, signal?: AbortSignal): Promise<T>;
  /** A call that must not be repeated blindly: one attempt. @throws UnknownOutcome, EtcdError. */
  write<T>(what: string, attempt: Attempt<T>): Promise<T>;
  close(): void;
}

export interface ConnectionOptions {
  readonly clock: Clock;
  readonly random: Random;
  /** `http://host:port` or `https://host:port`, at least one, all of the same cluster. */
  readonly endpoints: readonly string[];
  readonly tls?: TlsOptions;
  readonly log: Log;
  readonly timings?: Partial<Timings>;
  readonly observer?: EtcdObserver;
  /** How a member is reached. Default: over the network. */
  readonly open?: (endpoint: string) => Member;
}

const pem = (text: string | Buffer | undefined): Buffer | null => (text === undefined ? null : Buffer.from(text));

function credentialsFor(url: URL, tls: TlsOptions | undefined): ChannelCredentials {
  if (url.protocol === "http:") return credentials.createInsecure();
  return credentials.createSsl(pem(tls?.ca), pem(tls?.key), pem(tls?.cert));
}

/** Where a member is and how it is trusted. */
function addressOf(endpoint: string, tls: TlsOptions | undefined) {
  const url = new URL(endpoint);
  const secure = url.protocol === "https:";
  const options: ChannelOptions = {
    "grpc.enable_http_proxy": 0,
    // A connection belongs to its client alone: closing the client closes the socket.
    "grpc.use_local_subchannel_pool": 1,
    ...(secure && tls?.serverName !== undefined
      ? { "grpc.ssl_target_name_override": tls.serverName, "grpc.default_authority": tls.serverName }
      : {}),
  };
  return {
    address: `${url.hostname}:${url.port || (secure ? "443" : "2379")}`,
    trust: credentialsFor(url, tls),
    options,
  };
}

function openMember(endpoint: string, tls: TlsOptions | undefined, timings: Timings): Member {
  const { address, trust, options: common } = addressOf(endpoint, tls);
  const options: ChannelOptions = {
    ...common,
    "grpc.keepalive_time_ms": timings.pingIntervalMs,
    "grpc.keepalive_timeout_ms": timings.pingTimeoutMs,
    "grpc.max_receive_message_length": maxReceiveBytes,
    "grpc.initial_reconnect_backoff_ms": 100,
    "grpc.max_reconnect_backoff_ms": 1_000,
  };
  const kv = dial(KV, address, trust, options);
  const shared = { ...options, channelOverride: kv.getChannel() };
  return {
    endpoint,
    kv,
    watch: dial(Watch, address, trust, shared),
    lease: dial(Lease, address, trust, shared),
    close: () => kv.close(),
  };
}

/** The services with which a member tells of itself, over a connection of their own; disposing ends it. */
export function dialMaintenance(endpoint: string, tls: TlsOptions | undefined) {
  const { address, trust, options } = addressOf(endpoint, tls);
  const maintenance = dial(Maintenance, address, trust, options);
  const cluster = dial(Cluster, address, trust, { ...options, channelOverride: maintenance.getChannel() });
  return { maintenance, cluster, [Symbol.dispose]: () => maintenance.close() };
}

export const isServiceError = (error: unknown): error is ServiceError =>
  error instanceof Error && "code" in error && typeof error.code === "number";

/** The code of a grpc failure, or -1 (which counts as a broken transport) for any other error. */
export const grpcCodeOf = (error: unknown): number => (isServiceError(error) ? error.code : -1);

export function connect(options: ConnectionOptions): Connection {
  const { clock, random, endpoints, tls, log, timings: given, observer = null } = options;
  if (endpoints.length === 0) throw new Error("etcd needs at least one endpoint");
  for (const endpoint of endpoints) {
    if (!/^https?:$/.test(new URL(endpoint).protocol))
      throw new Error(`etcd endpoint is not a http(s) URL: ${endpoint}`);
  }
  const timings = { ...defaultTimings, ...given };
  const { open = (endpoint: string) => openMember(endpoint, tls, timings) } = options;
  const closing = new AbortController();
  let index = 0;
  let current: Member | null = null;

  const member = (): Member => {
    if (closing.signal.aborted) throw new EtcdError("CLOSED", "the etcd client is closed");
    current ??= open(endpoints[index % endpoints.length] ?? "");
    return current;
  };
  const moveOn = (failed: Member): void => {
    if (failed !== current) return;
    current = null;
    index += 1;
    failed.close();
  };

  /** One attempt; what it throws is an EtcdError whose cause is the grpc error, with the verdict beside it. */
  async function attemptOnce<T>(what: string, attempt: Attempt<T>, signal: AbortSignal) {
    const used = member();
    const startedAtMs = clock.steadyMs();
    const note = (code: EtcdErrorCode | null) => observer?.called(what, clock.steadyMs() - startedAtMs, code);
    try {
      const value = await attempt(used, new Date(clock.now().getTime() + timings.callTimeoutMs), signal);
      note(null);
      return { value };
    } catch (cause) {
      const failure = failureOf(grpcCodeOf(cause));
      if (failure.memberFault && !signal.aborted) moveOn(used);
      const code = closing.signal.aborted ? "CLOSED" : failure.code;
      note(code);
      const detail = isServiceError(cause) ? cause.details : String(cause);
      return { failure, error: new EtcdError(code, `etcd ${what} on ${used.endpoint}: ${detail}`, cause) };
    }
  }

  return {
    clock,
    random,
    log,
    timings,
    closed: closing.signal,
    observer,
    watches: new Set(),
    member,
    moveOn,
    async read(what, attempt, given) {
      const signal = given ? AbortSignal.any([given, closing.signal]) : closing.signal;
      const lastStartMs = clock.steadyMs() + 2 * timings.callTimeoutMs;
      for (let failures = 1; ; failures++) {
        const outcome = await attemptOnce(what, attempt, signal);
        if ("value" in outcome) return outcome.value;
        const again = outcome.failure.memberFault && failures < readAttempts && clock.steadyMs() < lastStartMs;
        if (!again || signal.aborted) throw outcome.error;
        await pause(clock, backOffMs(failures, readBackOff, random.next()), signal);
      }
    },
    async write(what, attempt) {
      const outcome = await attemptOnce(what, attempt, closing.signal);
      if ("value" in outcome) return outcome.value;
      if (!outcome.failure.maybeApplied) throw outcome.error;
      throw new UnknownOutcome(`result unknown: ${outcome.error.message}`, { cause: outcome.error });
    },
    close() {
      closing.abort(new EtcdError("CLOSED", "the etcd client is closed"));
      current?.close();
      current = null;
    },
  };
}
