// @pure

/** When it is, and since when somebody has been looking: nobody is blamed for what took longer while nobody looked. */
export interface Looking {
  now: Date;
  lookingSince: Date;
}

/** How many ms something has lasted since `at`, counting only time in which somebody looked. */
export const lasted = ({ now, lookingSince }: Looking, at: Date): number =>
  now.getTime() - (at > lookingSince ? at : lookingSince).getTime();
