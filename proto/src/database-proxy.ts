import { z } from "zod";
import { databaseEngines } from "./database.ts";

/** A number that only rises; written as text, since JSON numbers end at 2^53. */
const epoch = z.string().regex(/^[0-9]{1,19}$/);

/**
 * What is in the directory that a machine's agent and its database proxy share, which belongs to the proxy's user. The agent
 * writes all but the state.
 */
export const databaseProxyFiles = {
  table: "table.json",
  gone: "gone.json",
  state: "state.json",
  certificate: "certificate.pem",
  key: "key.pem",
  ca: "ca.pem",
} as const;

/** Where proxies of other machines listen, unless an operator says otherwise. */
export const databaseProxyPort = 7445;

/** Copies of one database that are followed at once. */
export const databaseProxyCopiesMax = 8;

export const databaseProxyEntry = z.strictObject({
  databaseId: z.guid(),
  /** Whose word counts: a connection under another epoch is refused. */
  epoch,
  engine: z.enum(databaseEngines),
  /** Who may log in, and where to. */
  role: z.string().min(1),
  database: z.string().min(1),
  /** Addresses of bridges on this machine whose containers may reach it. Empty: none here does. */
  bridges: z.array(z.ipv4()),
  /** Where its server is: a Unix socket of this machine, or the proxy of another one. Null: nowhere at present. */
  at: z
    .union([
      z.strictObject({ socket: z.string().startsWith("/") }),
      z.strictObject({ nodeId: z.guid(), host: z.string().min(1), port: z.int().min(1).max(65_535) }),
    ])
    .nullable(),
  /** At once, counted where the server is. */
  connectionLimit: z.int().min(0),
  /**
   * open: connections pass. held: new ones wait, for as long as a move freezes writes. closed: new ones are refused and
   * those that are there are ended.
   */
  state: z.enum(["open", "held", "closed"]),
  /** Copies that are kept of it: their keepers come in whatever the state, and do not count. */
  copies: z
    .array(
      z.strictObject({
        copyId: z.guid(),
        /** Whose proxy may dial for it. */
        nodeId: z.guid(),
        /** Where its keeper dials, if it is on this machine: a Unix socket that the proxy listens at. Null: elsewhere. */
        door: z.string().startsWith("/").nullable(),
      }),
    )
    .max(databaseProxyCopiesMax)
    .default([]),
});
export type DatabaseProxyEntry = z.output<typeof databaseProxyEntry>;

export const databaseProxyEntriesMax = 10_000;

/**
 * All that a machine's database proxy knows: which containers may reach which database, and where it is. The agent writes
 * it, and the proxy serves the last one it read, whoever is away.
 */
export const databaseProxyTable = z.strictObject({
  /** Rises with each table; a proxy refuses an older one. */
  generation: epoch,
  entries: z.array(databaseProxyEntry).max(databaseProxyEntriesMax),
});
export type DatabaseProxyTable = z.output<typeof databaseProxyTable>;

export const databaseProxyGoneMax = 10_000;

/**
 * Nodes and edges that a machine's database proxy lets in no more, whatever certificate they show. It is a file of its own,
 * which a proxy of an earlier version does not look for: that one reads no table with more in it than it knows.
 */
export const databaseProxyGone = z.strictObject({ ids: z.array(z.guid()).max(databaseProxyGoneMax) });
export type DatabaseProxyGone = z.output<typeof databaseProxyGone>;

/** What the proxy says of itself after each table: which one is in force, and what passes. */
export const databaseProxyState = z.strictObject({
  /** "0" while there is no table. */
  generation: epoch,
  pid: z.int(),
  connections: z.array(
    z.strictObject({
      databaseId: z.guid(),
      epoch,
      /** Connections to its server that pass here now; 0 where that is on another machine, which counts them. */
      open: z.int().min(0),
      /** Logins through bridges of this machine that its server refused, since this process began. */
      failedLogins: z.int().min(0),
    }),
  ),
});
export type DatabaseProxyState = z.output<typeof databaseProxyState>;

/** The protocol between database proxies, as TLS names it (ALPN). */
export const databaseProxyProtocol = "svc-database-proxy/1";

/**
 * What a proxy says first to the one beside a database's server. It and the answers to it are frames: two bytes of length,
 * most significant first, and so many bytes of JSON. After `ok` come the server's bytes.
 */
export const databaseProxyDial = z.discriminatedUnion("purpose", [
  z.strictObject({
    databaseId: z.guid(),
    epoch,
    /** session: counts as a connection. cancel: one CancelRequest of Postgres, which passes also where the limit is reached. */
    purpose: z.enum(["session", "cancel"]),
  }),
  // Of the keeper of a copy; the table has to name the dialling node for it.
  z.strictObject({ databaseId: z.guid(), epoch, purpose: z.literal("copy"), copyId: z.guid() }),
]);
export type DatabaseProxyDial = z.output<typeof databaseProxyDial>;

/** Why a proxy lets a connection go no further. */
export const databaseProxyRefusals = ["away", "closed", "held", "limit", "rate"] as const;
export type DatabaseProxyRefusal = (typeof databaseProxyRefusals)[number];

/** wait: a further answer follows within the time for which connections are held. */
export const databaseProxyAnswer = z.union([
  z.strictObject({ answer: z.enum(["ok", "wait"]) }),
  z.strictObject({ answer: z.literal("refused"), why: z.enum(databaseProxyRefusals) }),
]);
export type DatabaseProxyAnswer = z.output<typeof databaseProxyAnswer>;
