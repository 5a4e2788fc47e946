import { ApiError } from "../../http/errors.ts";
import type { Auth } from "./auth.ts";
import { busyMessage, isBusy, retrySeconds } from "./refusals.ts";

/** Hashes a password outside of better-auth's calls. Throws UNAVAILABLE. */
export async function hashOf(auth: Auth, password: string): Promise<string> {
  try {
    return await (await auth.$context).password.hash(password);
  } catch (error) {
    throw isBusy(error)
      ? new ApiError("UNAVAILABLE", { message: busyMessage, retryAfterSeconds: retrySeconds })
      : error;
  }
}
