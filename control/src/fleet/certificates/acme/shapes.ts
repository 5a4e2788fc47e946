import { z } from "zod";

const url = z.url({ protocol: /^https$/ });
const problem = z.looseObject({ type: z.string().optional(), detail: z.string().optional() });

/** RFC 8555, 7.1.1; `renewalInfo` of RFC 9773, `profiles` of the draft that public CAs follow. */
export const directoryShape = z.looseObject({
  newNonce: url,
  newAccount: url,
  newOrder: url,
  renewalInfo: url.optional(),
  meta: z
    .looseObject({
      caaIdentities: z.array(z.string()).optional(),
      profiles: z.record(z.string(), z.string()).optional(),
    })
    .optional(),
});
export type Directory = z.infer<typeof directoryShape>;

/** RFC 8555, 7.1.3. */
export const orderShape = z.looseObject({
  status: z.enum(["pending", "ready", "processing", "valid", "invalid"]),
  authorizations: z.array(url).min(1).max(100),
  finalize: url,
  certificate: url.optional(),
  expires: z.iso.datetime({ offset: true }).optional(),
  error: problem.optional(),
});

/** RFC 8555, 8. */
export const challengeShape = z.looseObject({
  type: z.string(),
  url,
  status: z.enum(["pending", "processing", "valid", "invalid"]),
  // As long as a CA may make it, and of letters that are safe in a path.
  token: z
    .string()
    .regex(/^[A-Za-z0-9_-]{16,128}$/)
    .optional(),
  error: problem.optional(),
});
export type Challenge = z.infer<typeof challengeShape>;

/** RFC 8555, 7.1.4. */
export const authorizationShape = z.looseObject({
  status: z.enum(["pending", "valid", "invalid", "deactivated", "expired", "revoked"]),
  identifier: z.looseObject({ type: z.string(), value: z.string() }),
  challenges: z.array(challengeShape).max(20),
  wildcard: z.boolean().optional(),
});
export type Authorization = z.infer<typeof authorizationShape>;

/** RFC 9773, 4.2. */
export const renewalShape = z.looseObject({
  suggestedWindow: z.object({ start: z.iso.datetime({ offset: true }), end: z.iso.datetime({ offset: true }) }),
  explanationURL: z.string().optional(),
});
