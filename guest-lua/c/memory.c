/* Lua's allocator: size classes over malloc, and the memory cap. Lua passes the size of a block when it frees it, so
   blocks need no header. An allocation over the cap fails: Lua then collects garbage, tries again, and raises
   "not enough memory" if that fails too. */

enum {
  MEMORY_CAP = 32 << 20,
  CLASS_BYTES = 16,
  CLASSES = 32, /* for blocks of up to 512 bytes */
  SLAB = 16 << 10,
};

static size_t memory_used;
static void *memory_free[CLASSES + 1];
static char *memory_slab, *memory_slab_end;

static inline unsigned memory_class(size_t bytes) { return (unsigned)((bytes + CLASS_BYTES - 1) / CLASS_BYTES); }

static inline void *memory_take(unsigned class) {
  void *block = memory_free[class];
  if (block) {
    memory_free[class] = *(void **)block;
    return block;
  }
  size_t bytes = (size_t)class * CLASS_BYTES;
  if ((size_t)(memory_slab_end - memory_slab) < bytes) {
    char *slab = malloc(SLAB);
    if (!slab) return NULL;
    memory_slab = slab;
    memory_slab_end = slab + SLAB;
  }
  block = memory_slab;
  memory_slab += bytes;
  return block;
}

static inline void memory_give(void *block, unsigned class) {
  if (class <= CLASSES) {
    *(void **)block = memory_free[class];
    memory_free[class] = block;
  } else {
    free(block);
  }
}

/* A lua_Alloc. */
static void *memory_alloc(void *ud, void *block, size_t old, size_t new) {
  (void)ud;
  if (!block) old = 0; /* then `old` is a type tag */
  if (new > old && new - old > MEMORY_CAP - memory_used) return NULL;
  unsigned from = memory_class(old), to = memory_class(new);
  void *moved;
  if (new == 0) {
    if (old) memory_give(block, from);
    moved = NULL;
  } else if (old && from == to && to <= CLASSES) {
    moved = block;
  } else if (from > CLASSES && to > CLASSES) {
    moved = realloc(block, new);
    if (!moved) return NULL;
  } else {
    moved = to <= CLASSES ? memory_take(to) : malloc(new);
    if (!moved) return new < old ? block : NULL; /* Lua relies on shrinking to succeed */
    if (old) {
      memcpy(moved, block, old < new ? old : new);
      memory_give(block, from);
    }
  }
  memory_used += new - old;
  return moved;
}

/* Called when the image is complete, with memory that is not needed any more. The host writes the whole beginning of the memory anew
   after each run (ADR 160), so a run that stays within it takes no page fault: it first uses the blocks that were freed between
   those of the prelude, and the text of the prelude's sources. */
static void memory_settle(char *unused, size_t bytes) {
  memory_slab = (char *)(((uintptr_t)unused + CLASS_BYTES - 1) & ~(uintptr_t)(CLASS_BYTES - 1));
  memory_slab_end = unused + bytes;
}
