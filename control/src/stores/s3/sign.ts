import { createHash, createHmac } from "node:crypto";
import type { BucketSettings } from "../../settings/settings.ts";

/** With what requests are signed. */
export type Credentials = Pick<BucketSettings, "accessKeyId" | "secretAccessKey" | "region">;

export interface SignableRequest {
  method: "GET" | "PUT" | "DELETE";
  /** Without a query. Its path is signed as it stands, so it has to be escaped as `objectUrl` does. */
  url: URL;
  /** Names in lower case. All of them are signed. */
  headers?: Readonly<Record<string, string>>;
  /** Left out: there is none. */
  body?: Uint8Array;
}

const sha256 = (content: Uint8Array | string): string => createHash("sha256").update(content).digest("hex");
const hmac = (key: Uint8Array | string, text: string): Buffer => createHmac("sha256", key).update(text).digest();

/**
 * The headers with which a request is sent, by AWS's Signature Version 4 for S3. The body is signed with it: whoever is asked
 * refuses another one, and the same request a quarter of an hour later.
 */
export function signedHeaders(now: Date, credentials: Credentials, request: SignableRequest): Record<string, string> {
  const { accessKeyId, secretAccessKey, region } = credentials;
  const at = now.toISOString().replaceAll(/[-:]|\.\d+/g, "");
  const day = at.slice(0, 8);
  const bodyDigest = sha256(request.body ?? "");
  const headers: Record<string, string> = {
    ...request.headers,
    host: request.url.host,
    "x-amz-content-sha256": bodyDigest,
    "x-amz-date": at,
  };
  const names = Object.keys(headers).sort();
  const canonical = [
    request.method,
    request.url.pathname,
    "",
    ...names.map((name) => `${name}:${headers[name]?.trim()}`),
    "",
    names.join(";"),
    bodyDigest,
  ].join("\n");
  const scope = `${day}/${region}/s3/aws4_request`;
  const dayKey = hmac(`AWS4${secretAccessKey}`, day);
  const key = hmac(hmac(hmac(dayKey, region), "s3"), "aws4_request");
  const signature = hmac(key, ["AWS4-HMAC-SHA256", at, scope, sha256(canonical)].join("\n")).toString("hex");
  return {
    ...headers,
    authorization: `AWS4-HMAC-SHA256 Credential=${accessKeyId}/${scope},SignedHeaders=${names.join(";")},Signature=${signature}`,
  };
}

/** The address of an object, its bucket in the path: every S3-speaking server understands that, whatever its certificate names. */
export function objectUrl({ endpoint, bucket }: Pick<BucketSettings, "endpoint" | "bucket">, key: string): URL {
  const escaped = (part: string) =>
    encodeURIComponent(part).replaceAll(/[!'()*]/g, (at) => `%${at.charCodeAt(0).toString(16).toUpperCase()}`);
  return new URL(`/${escaped(bucket)}/${key.split("/").map(escaped).join("/")}`, endpoint);
}
