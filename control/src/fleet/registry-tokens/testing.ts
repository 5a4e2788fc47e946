import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { aTokenKey } from "../../../../registry/src/testing/token-key.ts";

const dir = mkdtempSync(join(tmpdir(), "svc-token-key-"));
process.once("exit", () => rmSync(dir, { recursive: true, force: true }));
const { key, certificate } = await aTokenKey();

/** What control must be told to start, besides its stores and secrets: a key for the tokens of a registry. */
export const tokenKeySettings = {
  SVC_REGISTRY_TOKEN_KEY_FILE: join(dir, "key.pem"),
  SVC_REGISTRY_TOKEN_CERT_FILE: join(dir, "cert.pem"),
};
writeFileSync(tokenKeySettings.SVC_REGISTRY_TOKEN_KEY_FILE, key, { mode: 0o600 });
writeFileSync(tokenKeySettings.SVC_REGISTRY_TOKEN_CERT_FILE, certificate);
