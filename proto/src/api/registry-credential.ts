import { z } from "zod";
import { normaliseRegistry } from "../image.ts";
import { limits } from "../limits.ts";
import { referenceIssue } from "../manifest.ts";
import { isOneLine } from "../text.ts";
import { replyObject, success, timestamp } from "./envelope.ts";

/** A registry host; the output is the form in which hosts are compared. */
export const registryHost = z.string().transform((text, context) => {
  const host = normaliseRegistry(text);
  if (host !== null) return host;
  context.issues.push({ code: "custom", message: "is not a registry host", input: text, params: referenceIssue });
  return z.NEVER;
});

/** Never has a user name or a secret. */
export const registryCredential = replyObject({
  host: z.string(),
  configured: z.literal(true),
  createdAt: timestamp,
  updatedAt: timestamp,
});

export const registryCredentialListReply = success({ credentials: z.array(registryCredential) });
export const putRegistryCredentialInput = z.strictObject({
  host: registryHost,
  username: z
    .string()
    .min(1)
    .max(limits.registryUsernameLengthMax)
    .refine(isOneLine, "contains control characters")
    // HTTP would read the rest as part of the secret.
    .refine((name) => !name.includes(":"), "contains a colon"),
  secret: z.string().min(1).max(limits.registrySecretLengthMax).refine(isOneLine, "contains control characters"),
});
export const putRegistryCredentialReply = success({ credential: registryCredential, rotated: z.boolean() });
/**
 * Without `confirm: true` the answer is DESTRUCTIVE_CONFIRMATION_REQUIRED, so the schema lets everything else pass;
 * the description of the API says what is wanted.
 */
export const deleteRegistryCredentialInput = z
  .strictObject({ host: registryHost, confirm: z.unknown().meta({ const: true }).exactOptional() })
  .meta({ required: ["host", "confirm"] });
export const deleteRegistryCredentialReply = success({ host: z.string() });
