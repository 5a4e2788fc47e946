import { z } from "zod";
import { replyObject, success, timestamp } from "./envelope.ts";

/** What an image is pushed with; the password is in this reply and nowhere else. */
export const registryLoginReply = success({
  login: replyObject({
    /** As image references begin with it. */
    host: z.string(),
    /** What the names of the account's images begin with, behind the host. */
    prefix: z.string(),
    username: z.string(),
    password: z.string(),
    expiresAt: timestamp,
  }),
});
export type RegistryLogin = z.output<typeof registryLoginReply>["login"];
