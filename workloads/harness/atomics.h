/*
 * The few atomic operations that are needed: relaxed loads and stores of a word, and a
 * flag that one caller gets. C11's <stdatomic.h> is not on the older systems; gcc before
 * 4.7 has __sync_* only.
 */
#ifndef ATOMICS_H
#define ATOMICS_H

#ifdef __ATOMIC_RELAXED

#define ATOMIC_LOAD(pointer) __atomic_load_n((pointer), __ATOMIC_RELAXED)
#define ATOMIC_STORE(pointer, value) __atomic_store_n((pointer), (value), __ATOMIC_RELAXED)
#define ATOMIC_CLAIM(flag) (!__atomic_exchange_n((flag), 1, __ATOMIC_ACQ_REL))

#else

/* An aligned word is read and written whole on every machine that these compilers serve. */
#define ATOMIC_LOAD(pointer) (*(const volatile __typeof__(*(pointer)) *)(pointer))
#define ATOMIC_STORE(pointer, value) \
    ((void)(*(volatile __typeof__(*(pointer)) *)(pointer) = (value)))
#define ATOMIC_CLAIM(flag) (!__sync_lock_test_and_set((flag), 1))

#endif

#endif
