import { expect, test } from "vitest";
import { objectUrl, signedHeaders } from "./sign.ts";

/** From Amazon's documentation of Signature Version 4 for S3, "Examples: Signature Calculations". */
const credentials = {
  accessKeyId: "AKIAIOSFODNN7EXAMPLE",
  secretAccessKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
  region: "us-east-1",
};
const now = new Date("2013-05-24T00:00:00Z");
const signatureOf = (headers: Record<string, string>) => headers["authorization"]?.split("Signature=")[1];

test("a GET is signed as Amazon's example is", () => {
  const url = new URL("https://examplebucket.s3.amazonaws.com/test.txt");
  const headers = signedHeaders(now, credentials, { method: "GET", url, headers: { range: "bytes=0-9" } });
  expect(signatureOf(headers)).toBe("f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  expect(headers["authorization"]).toContain("SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,");
});

test("a PUT is signed as Amazon's example is, with its body and an escaped path", () => {
  const url = new URL("https://examplebucket.s3.amazonaws.com/test%24file.text");
  const headers = signedHeaders(now, credentials, {
    ...{ method: "PUT", url, body: Buffer.from("Welcome to Amazon S3.") },
    headers: { date: "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY" },
  });
  expect(signatureOf(headers)).toBe("98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
});

test("what is no letter, digit or one of -._~ is escaped in names of objects, and a slash is not", () => {
  const url = objectUrl({ endpoint: "https://s3.test", bucket: "copies" }, "a b/$(c)/d~e!");
  expect(url.href).toBe("https://s3.test/copies/a%20b/%24%28c%29/d~e%21");
});
