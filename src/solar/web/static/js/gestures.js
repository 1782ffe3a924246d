// What a mouse or fingers do on a picture: drag, pinch, turn the wheel, tap.

const WHEEL = 0.0015;
const PINCHED_PAD = 0.01;

/** So far, in pixels, a finger may move that only taps. */
export const TAP = 8;

/**
 * Listens on an element; places are counted from its upper left corner.
 * @param {object} act `pan(dx, dy)` and `zoom(factor, at)` are called for two fingers and the wheel;
 *   for one finger `press(at, event)`, `drag(dx, dy, at, far)`, and at the end `lift(at, gesture)`
 *   with `event`, `start`, `far` and whether it was `alone`; `hover(at)` for a mouse.
 */
export function watchGestures(element, act) {
  const fingers = new Map();
  let gesture = null;

  function at({ clientX, clientY }) {
    const { left, top } = element.getBoundingClientRect();
    return [clientX - left, clientY - top];
  }

  element.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    element.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, at(event));
    if (fingers.size > 1) {
      gesture.alone = false;
      return;
    }
    gesture = { start: at(event), far: 0, alone: true };
    act.press?.(gesture.start, event);
  });

  element.addEventListener("pointermove", (event) => {
    const now = at(event);
    const before = fingers.get(event.pointerId);
    if (!before) {
      act.hover?.(now);
      return;
    }
    const other = [...fingers].find(([id]) => id !== event.pointerId)?.[1];
    fingers.set(event.pointerId, now);
    gesture.far = Math.max(gesture.far, distance(now, gesture.start));
    const [dx, dy] = [now[0] - before[0], now[1] - before[1]];
    if (!other) {
      act.drag(dx, dy, now, gesture.far);
      return;
    }
    // Of two fingers the distance zooms, the middle pans.
    act.pan(dx / 2, dy / 2);
    const middle = [(now[0] + other[0]) / 2, (now[1] + other[1]) / 2];
    act.zoom(distance(now, other) / Math.max(distance(before, other), 1), middle);
  });

  for (const kind of ["pointerup", "pointercancel"]) {
    element.addEventListener(kind, (event) => {
      if (!fingers.delete(event.pointerId) || fingers.size) return;
      act.lift(at(event), { ...gesture, event, alone: gesture.alone && kind === "pointerup" });
    });
  }

  element.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      act.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? PINCHED_PAD : WHEEL)), at(event));
    },
    { passive: false },
  );
}

export const distance = (one, other) => Math.hypot(one[0] - other[0], one[1] - other[1]);
