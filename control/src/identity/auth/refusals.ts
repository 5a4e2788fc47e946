import { APIError, isAPIError } from "better-auth/api";
import type { EntryRefusal } from "./entry.ts";

/** @param mailsLink whether the right password would have got a link by mail; it is said to whoever asks */
export function tooManyAttempts(waitSeconds: number, mailsLink = false): APIError {
  const otherwise = mailsLink ? " If the password was right, the account's mailbox gets a link to sign in now." : "";
  const message = `Too many attempts. Try again in ${waitSeconds} seconds.${otherwise}`;
  return new APIError(
    "TOO_MANY_REQUESTS",
    { code: "RATE_LIMITED", message, mailsLink },
    { "x-retry-after": `${waitSeconds}` },
  );
}

/** 400 throughout: better-auth takes a 403 at this place for a reason to pretend success. */
export const entryError = (code: EntryRefusal): APIError =>
  new APIError("BAD_REQUEST", { code, message: entryMessages[code] });

export const entryMessages: Readonly<Record<EntryRefusal, string>> = {
  SIGNUP_CLOSED: "Nobody can sign up here by themselves.",
  INVITE_INVALID: "Signing up needs an invitation to this address that nobody has used. Ask an administrator for one.",
  INVALID_EMAIL: "That is not an email address.",
};

export const busyMessage = "Too many people are signing in at once. Try again in a moment.";

export const retrySeconds = 5;

export const busy = () =>
  new APIError(
    "SERVICE_UNAVAILABLE",
    { code: "UNAVAILABLE", message: busyMessage },
    { "retry-after": `${retrySeconds}` },
  );

/** Whether a call to better-auth found no place in the line. */
export const isBusy = (error: unknown): boolean => isAPIError(error) && error.statusCode === 503;
