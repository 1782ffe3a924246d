// What a mouse, a finger or two do on the stage of a photo.

const SWIPE = 50;
const TAP = 8;
const AGAIN = 350;
const WHEEL = 0.0015;
const PINCHED_PAD = 0.01;

/**
 * Listens on a stage; places are counted from its middle.
 * @param {{pan: function(number, number), zoom: function(number, number[]), twice: function(number[]),
 *   swipe: function(number), enlarged: function(): boolean}} act `zoom` gets a factor and where,
 *   `swipe` 1 for the next photo and -1 for the one before.
 */
export function watchGestures(stage, act) {
  const fingers = new Map();
  let start = null;
  let tapped = { time: -AGAIN, at: [0, 0] };

  function at(event) {
    const { left, top, width, height } = stage.getBoundingClientRect();
    return [event.clientX - left - width / 2, event.clientY - top - height / 2];
  }

  stage.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    stage.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, at(event));
    if (fingers.size === 1) start = { at: at(event), far: 0, alone: true };
    else start.alone = false;
  });

  stage.addEventListener("pointermove", (event) => {
    const before = fingers.get(event.pointerId);
    if (!before) return;
    const now = at(event);
    const other = [...fingers].find(([id]) => id !== event.pointerId)?.[1];
    fingers.set(event.pointerId, now);
    start.far = Math.max(start.far, distance(now, start.at));
    if (other) pinch(other, before, now);
    else if (act.enlarged()) act.pan(now[0] - before[0], now[1] - before[1]);
  });

  /** Two fingers: their distance zooms, their middle pans. */
  function pinch(other, before, now) {
    const middle = [(now[0] + other[0]) / 2, (now[1] + other[1]) / 2];
    act.zoom(distance(now, other) / Math.max(distance(before, other), 1), middle);
    act.pan((now[0] - before[0]) / 2, (now[1] - before[1]) / 2);
  }

  stage.addEventListener("pointerup", (event) => {
    if (!fingers.delete(event.pointerId) || fingers.size || !start.alone) return;
    const now = at(event);
    if (start.far <= TAP) tap(now, event.timeStamp);
    else if (event.pointerType !== "mouse" && !act.enlarged()) swipe(now);
  });
  stage.addEventListener("pointercancel", (event) => fingers.delete(event.pointerId));

  function tap(now, time) {
    const twice = time - tapped.time < AGAIN && distance(now, tapped.at) < 3 * TAP;
    tapped = { time: twice ? -AGAIN : time, at: now };
    if (twice) act.twice(now);
  }

  function swipe(now) {
    const [dx, dy] = [now[0] - start.at[0], now[1] - start.at[1]];
    if (Math.abs(dx) > SWIPE && Math.abs(dx) > 1.5 * Math.abs(dy)) act.swipe(dx < 0 ? 1 : -1);
  }

  stage.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      act.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? PINCHED_PAD : WHEEL)), at(event));
    },
    { passive: false },
  );
}

const distance = (one, other) => Math.hypot(one[0] - other[0], one[1] - other[1]);
