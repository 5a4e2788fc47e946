import type { Readable } from "node:stream";
import type { ErrorCode } from "@svc/proto";
import type { FastifyReply, FastifyRequest } from "fastify";
import { z } from "zod";
import type { Access } from "./access.ts";
import type { Caller } from "./caller.ts";

/** A code that a handler answers with; together with the status where that is not the code's usual one. */
export type HandlerError = ErrorCode | { code: ErrorCode; status: number };

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

type Output<S> = S extends z.ZodType ? z.output<S> : undefined;

/** The payload of a reply: its fields without `ok`, and without the leave to have any field at all. */
export type Payload<R extends z.ZodType> = {
  [K in keyof z.input<R> as string extends K ? never : K extends "ok" ? never : K]: z.input<R>[K];
};

/** What a handler knows of its request. */
export interface Call<A, P, Q, B> {
  /** Null exactly for endpoints that are open to everybody. */
  caller: A extends "none" ? null : Caller;
  params: Output<P>;
  query: Output<Q>;
  body: Output<B>;
  /** Address of the client, for the audit log and for limits. */
  address: string;
  /** The request's Idempotency-Key; null without one. */
  idempotencyKey: string | null;
  /** For what JSON does not carry: uploads, downloads. */
  request: FastifyRequest;
  reply: FastifyReply;
}

export interface EndpointSpec<C, A extends Access, P, Q, B, R extends z.ZodType> {
  method: Method;
  /** Below /api/v1, with ":name" for parameters. */
  path: string;
  access: A;
  /** One sentence for the API's description. */
  summary: string;
  params?: P;
  query?: Q;
  body?: B;
  /** Of success; 200 unless said otherwise. */
  status?: 200 | 201 | 202;
  reply: R;
  /** The code of a body that does not fit; VALIDATION unless said otherwise. */
  badBody?: ErrorCode;
  /** The code of a query that does not fit; VALIDATION unless said otherwise. */
  badQuery?: ErrorCode;
  /**
   * Codes that the handler itself may answer with. Those that follow from the rest of the spec (access, schemas,
   * limits) are not named again. A code with two statuses is named once for each.
   */
  errors?: readonly HandlerError[];
  /** The handler reads the body itself, as a stream: multipart or JSON. */
  upload?: boolean;
  /** The media type of an upload that is one stream of bytes, and neither multipart nor JSON. */
  uploadType?: string;
  /** The handler goes on with the connection as a WebSocket: see `Upgrades`. */
  upgrades?: boolean;
  /** Returns the payload; `ok: true` is added to it. Throws `ApiError` for every outcome that is not a success. */
  handle(context: C, call: Call<A, P, Q, B>): Promise<Payload<R>>;
}

/** An answer that is a file. Whoever goes away ends the stream, and a stream that breaks off ends the connection. */
export interface FileReply {
  stream: Readable;
  /** Null: nobody knows before its end. */
  sizeBytes: number | null;
  /** Where it is not the endpoint's own. */
  type?: string;
  /** Of letters, digits, dots, dashes and underscores. */
  filename: string;
  /** Names its bytes: whoever has them need not be sent them again, and may show them. Left out: it is put on the disk. */
  etag?: string;
}

/** The same as `EndpointSpec` for a call that is answered with a file. */
export interface FileEndpointSpec<C, A extends Access, P, Q>
  extends Pick<
    EndpointSpec<C, A, P, Q, undefined, z.ZodType>,
    "path" | "access" | "summary" | "params" | "query" | "errors"
  > {
  method: "GET";
  /** Its media type. */
  file: string;
  handle(context: C, call: Call<A, P, Q, undefined>): Promise<FileReply>;
}

/** A call whose parts its endpoint's schemas have accepted. */
export interface CheckedCall
  extends Omit<Call<Access, unknown, unknown, unknown>, "caller" | "params" | "query" | "body"> {
  caller: Caller | null;
  params: unknown;
  query: unknown;
  body: unknown;
}

/**
 * An endpoint whose types are settled: what the server registers and the description is made from.
 *
 * @typeParam C what its handler is given; who does not call it need not know
 */
export interface Endpoint<C = never> {
  method: Method;
  path: string;
  access: Access;
  summary: string;
  params: z.ZodType | null;
  query: z.ZodType | null;
  body: z.ZodType | null;
  status: 200 | 201 | 202;
  reply: z.ZodType;
  /** The media type of the file that it is answered with; null: it is answered in JSON. */
  file: string | null;
  badBody: ErrorCode;
  badQuery: ErrorCode;
  errors: readonly HandlerError[];
  upload: boolean;
  /** Null: an upload is multipart or JSON. */
  uploadType: string | null;
  upgrades: boolean;
  handle(context: C, call: CheckedCall): Promise<object>;
}

/**
 * Makes endpoints whose handlers are given a `C`. An endpoint is an HTTP call as data. The type demands an access class, so
 * nothing is open by oversight; the schemas check what comes in and what goes out, and describe both.
 */
export const endpointFor =
  <C>() =>
  <const A extends Access, P, Q, B, R extends z.ZodType>(spec: EndpointSpec<C, A, P, Q, B, R>): Endpoint<C> => {
    const {
      params = null,
      query = null,
      body = null,
    } = spec as { params?: z.ZodType; query?: z.ZodType; body?: z.ZodType };
    return {
      method: spec.method,
      path: spec.path,
      access: spec.access,
      summary: spec.summary,
      params,
      query,
      body,
      status: spec.status ?? 200,
      reply: spec.reply,
      file: null,
      badBody: spec.badBody ?? "VALIDATION",
      badQuery: spec.badQuery ?? "VALIDATION",
      errors: spec.errors ?? [],
      upload: spec.upload ?? false,
      uploadType: spec.uploadType ?? null,
      upgrades: spec.upgrades ?? false,
      // The schemas above produce exactly the types that the handler was written against.
      handle: spec.handle as Endpoint<C>["handle"],
    };
  };

/** What is known of a file before anybody reads it. */
const anyFile = z.custom<FileReply>();

/** Makes endpoints that are answered with a file. */
export const fileEndpointFor =
  <C>() =>
  <const A extends Access, P, Q>({ file, ...spec }: FileEndpointSpec<C, A, P, Q>): Endpoint<C> => ({
    ...endpointFor<C>()({ ...spec, reply: anyFile, handle: spec.handle as never } as EndpointSpec<
      C,
      A,
      P,
      Q,
      undefined,
      typeof anyFile
    >),
    file,
  });
