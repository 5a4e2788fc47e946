import type { Db } from "../db/pool.ts";
import { addressGroup } from "./address.ts";
import { type Allowance, type Counted, forgetAttempts, giveBack, takeAttempt } from "./attempts.ts";

/** Guesses at one account from browsers that never signed in to it, wherever they are: ten, then ten an hour. */
const ofStrangers: Allowance = { capacity: 10, secondsPerToken: 360 };
/** Guesses from a browser that has signed in to the account before. What strangers do does not count here. */
const ofKnownDevice: Allowance = { capacity: 20, secondsPerToken: 60 };
/** Failures of one client at whatever accounts; an office shares an address. */
const ofAddress: Allowance = { capacity: 60, secondsPerToken: 60 };
/** Mails to one user about what somebody does who is signed in. Counted apart: those anybody may ask for hide none of them. */
const ofNotices: Allowance = { capacity: 5, secondsPerToken: 3600 };
/** Mails to one address, which anybody may ask for. */
const ofMailbox: Allowance = { capacity: 5, secondsPerToken: 600 };

export interface SignInAttempt {
  /** As it was typed, whether or not there is such an account: the answer must not differ. */
  email: string;
  address: string;
  /** What names the browser, if it has signed in to this account before; see known-device.ts. */
  device: string | null;
}

const strangersAt = (email: string): Counted => ({ what: "sign-in-account", whose: email.toLowerCase() });

function countedOf({ email, address, device }: SignInAttempt): { counted: Counted; allowance: Allowance }[] {
  return [
    device === null
      ? { counted: strangersAt(email), allowance: ofStrangers }
      : { counted: { what: "sign-in-device", whose: device }, allowance: ofKnownDevice },
    { counted: { what: "sign-in-address", whose: addressGroup(address) }, allowance: ofAddress },
  ];
}

/** Counts an attempt before its password is looked at; null when it may be made, else the seconds to wait. */
export async function takeSignIn(db: Db, attempt: SignInAttempt): Promise<number | null> {
  for (const { counted, allowance } of countedOf(attempt)) {
    const wait = await takeAttempt(db, counted, allowance);
    if (wait !== null) return wait;
  }
  return null;
}

/** It was no guess: the password was right. */
export async function giveBackSignIn(db: Db, attempt: SignInAttempt): Promise<void> {
  for (const { counted, allowance } of countedOf(attempt)) await giveBack(db, counted, allowance);
}

/** After a reset by mail the old guesses are worth nothing, and the owner must be able to sign in. */
export const forgetGuesses = (db: Db, email: string): Promise<void> => forgetAttempts(db, strangersAt(email));

/** Whether a mail that anybody may ask for may go to `email` now. */
export const mayMail = async (db: Db, email: string): Promise<boolean> =>
  (await takeAttempt(db, { what: "mail", whose: email.toLowerCase() }, ofMailbox)) === null;

/** Whether a mail about what happened in the account may go to the user now. */
export const mayNotify = async (db: Db, userId: string): Promise<boolean> =>
  (await takeAttempt(db, { what: "notice", whose: userId }, ofNotices)) === null;
